/* Stands in for libnvidia-ml.so.1: two GPUs with four NVLinks each, as a file of "key value" lines says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID = 2, UNSUPPORTED = 3, TIMEOUT = 10, LOST = 15 };
enum { GPUS = 2, LINKS = 4 };

static int gpus[GPUS] = {0, 1}; /* a handle is the address of a number */
static int told;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;

typedef struct {
    int *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
} event_t;

static int ask(const char *key) {
    char name[64];
    int value, found = 0;
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    while (file && fscanf(file, "%63s %d", name, &value) == 2)
        if (!strcmp(name, key)) found = value;
    if (file) fclose(file);
    return found;
}

static int of(const int *gpu, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "%s%d", key, *gpu);
    return ask(name);
}

static int state(const int *gpu) { return of(gpu, "lost") ? LOST : SUCCESS; }

int nvmlInitWithFlags(unsigned flags) { return (void)flags, SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { return *count = GPUS - ask("gone"), SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, int **gpu) {
    if (index >= GPUS) return INVALID;
    *gpu = &gpus[index];
    return state(*gpu);
}

int nvmlDeviceGetUUID(int *gpu, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-%d", *gpu);
    return state(gpu);
}

int nvmlDeviceGetPciInfo_v3(int *gpu, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", 0x9b + *gpu);
    return state(gpu);
}

int nvmlDeviceGetTotalEccErrors(int *gpu, int type, int counter, unsigned long long *count) {
    if (type != 1 || counter != 0) return INVALID; /* uncorrected, volatile */
    *count = of(gpu, "ecc");
    return state(gpu);
}

int nvmlDeviceGetRemappedRows(int *gpu, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failed) {
    *corr = *unc = 0;
    *pending = of(gpu, "pending");
    *failed = of(gpu, "failed");
    return state(gpu);
}

int nvmlDeviceGetRetiredPagesPendingStatus(int *gpu, unsigned *pending) {
    return *pending = 0, (void)gpu, UNSUPPORTED; /* as on all that remap rows */
}

int nvmlDeviceGetNvLinkState(int *gpu, unsigned link, unsigned *active) {
    char key[32];
    if (link >= LINKS) return INVALID;
    snprintf(key, sizeof key, "down%d.%u", *gpu, link);
    *active = !ask(key);
    return state(gpu);
}

int nvmlDeviceGetNvLinkErrorCounter(int *gpu, unsigned link, unsigned counter, unsigned long long *count) {
    *count = link == 0 && counter == 1 ? of(gpu, "recovery") : 0;
    return state(gpu);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(int *gpu, unsigned long long *reasons) {
    *reasons = of(gpu, "slow");
    return state(gpu);
}

int nvmlEventSetCreate(int **set) { return *set = &told, SUCCESS; }
int nvmlEventSetFree(int *set) { return (void)set, SUCCESS; }
int nvmlDeviceRegisterEvents(int *gpu, unsigned long long types, int *set) {
    return (void)set, types == 8 ? state(gpu) : INVALID;
}

int nvmlEventSetWait_v2(int *set, event_t *event, unsigned timeout_ms) {
    struct timespec tick = {0, 10 * 1000 * 1000};
    for (unsigned waited = 0; waited < timeout_ms; waited += 10) {
        if (ask("xids") > told) {
            told++;
            memset(event, 0, sizeof *event);
            event->device = &gpus[0];
            event->type = 8;
            event->data = ask("xid");
            return (void)set, SUCCESS;
        }
        nanosleep(&tick, NULL);
    }
    return TIMEOUT;
}

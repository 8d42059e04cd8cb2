"""What the store, the rendezvous and gloo say. Issue numbers are of pytorch unless named."""

from agent.signatures.model import Role, Signature, Trigger

# `[…/gloo/transport/tcp/pair.cc:537] `; where an assertion fails: `[enforce fail at …/pair.cc:456] `.
_GLOO = r"\[(?:enforce fail at )?\S*gloo/\S*\] "

RENDEZVOUS = (
    Signature(
        "c10d.port_taken",
        r".*(?:server socket has failed to (?:listen|bind)|EADDRINUSE|\[Errno 98\]).*",
        "rendezvous_failure",
        Role.CULPRIT,
        "vllm 39015: an earlier start has not ended",
    ),
    Signature(
        "c10d.store_unreachable",
        r".*client socket has (?:timed out|failed)[^(]*connect(?:ing)? to "
        r"\(?\[?(?P<peer>[\w.:-]+?)\]?[,:] ?(?P<port>\d+)\)?.*",
        "rendezvous_failure",
        Role.SYMPTOM,
        "107021, YOLO-World 163",
    ),
    Signature(
        "c10d.store_id",
        r".*is setting up NCCL communicator and retrieving ncclUniqueId.*",
        "rendezvous_failure",
        Role.SYMPTOM,
        "nccl 845, 708; 82091",
    ),
    Signature(
        "c10d.rendezvous_unresolved",
        r".*(?:cannot be retrieved \(gai error|Temporary failure in name resolution|"
        r"Name or service not known|hostname of the rendezvous endpoint .* must resolve).*",
        "rendezvous_failure",
        Role.SYMPTOM,
        "torch socket.cpp; getaddrinfo",
    ),
    Signature(
        "c10d.rendezvous_clients",
        r"(?:[\w.]+\.)?DistStoreError: (?:Timed out after \d+ seconds waiting for|wait timeout after).*",
        "rendezvous_failure",
        Role.SYMPTOM,
        "TCPStore: who is missing is not said",
    ),
    Signature(
        "c10d.rendezvous_waiting",
        r"(?i:(?:still )?waiting for (?:\w+ )?(?:clients|workers|ranks|peers|nodes))\b.*\b[1-9]\d*/\d+"
        r" (?i:joined|(?:are )?(?:ready|connected|up))\b.*",
        "",
        Role.EVIDENCE,
        "whoever counts those who came: the meeting point is there, and is found from here",
        trigger=Trigger.NEVER,
        levels="IWEF",
    ),
    Signature(
        "c10d.rendezvous",
        r"(?:[\w.]+\.)?Rendezvous(?:Timeout|Closed|Connection|State)?Error\b.*",
        "rendezvous_failure",
        Role.SYMPTOM,
        "147064, 150916",
    ),
    Signature(
        "c10d.store_lost",
        r".*(?:recvValue failed|sendBytes failed|recvBytes? failed|"
        r"Failed to check the \"should dump\" flag|"
        r"Connection was likely closed\. Did the remote server).*",
        "network_tcp",
        Role.SYMPTOM,
        "gpustack 6019, vllm 25650: the process that hosts the store died",
    ),
    Signature(
        "gloo.loopback",
        r".*Using the loopback address as fallback.*",
        "nccl_config",
        Role.EVIDENCE,
        "ProcessGroupGloo.cpp: harmless on one machine, out of reach for others",
        trigger=Trigger.NEVER,
        levels="WEF",
    ),
    Signature(
        "gloo.mismatch",
        _GLOO + r"op\.preamble\.length <= op\.nbytes.*",
        "desync",
        Role.SYMPTOM,
        "gloo pair.cc: whoever prints it got what another collective sent",
        retryable=False,
    ),
    Signature(
        "gloo.timeout",
        _GLOO + r"(?:Timed out waiting \d+ms|Read timeout|Write timeout|Connect timeout).*",
        "nccl_timeout",
        Role.SYMPTOM,
        "gloo unbound_buffer.cc",
    ),
    Signature(
        "gloo.peer_lost",
        _GLOO + r"(?:Connection closed by peer|(?:Read|Write) error|writev|readv|"
        r"Socket closed|Application timeout|.*Connection reset by peer|"
        r".*Broken pipe)(?: ?\[(?P<peer>[\w.:]+?)\](?::\d+)?)?.*",
        "network_tcp",
        Role.SYMPTOM,
        "gloo tcp/pair.cc: whoever prints it is the victim",
        trigger=Trigger.AT_ONCE,
    ),
    Signature("gloo.connect", r".*Gloo connectFullMesh failed with.*", "network_tcp", Role.SYMPTOM, "135712"),
    Signature("gloo.other", _GLOO + r".*", "network_tcp", Role.SYMPTOM, "k"),
    Signature(
        "c10d.backend",
        r"(?:[\w.]+\.)?Dist(?:Backend|Network|Store)?Error: .*",
        "network_tcp",
        Role.SYMPTOM,
        "torch.distributed",
    ),
)

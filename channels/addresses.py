"""Which addresses messages may go to: every public one, and the private ones that the operator admits."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Cidr = IPv4Network | IPv6Network

# IANA special-purpose registries (RFC 6890 and its updates). Kept here because `is_global` of the
# standard library differs between Python releases. The first match gives the reason.
SPECIAL: tuple[tuple[Cidr, str], ...] = tuple(
    (ip_network(cidr), kind)
    for cidr, kind in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.100.100.200/32", "a cloud metadata service"),  # Alibaba Cloud
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud metadata service"),  # Azure: public space, answers inside only
        ("169.254.0.0/16", "link-local"),  # 169.254.169.254 and the like are metadata services
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),  # Oracle Cloud's metadata service is 192.0.0.192
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),  # protocol assignments, Teredo among them
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
)
GLOBAL_UNICAST = ip_network("2000::/3")  # of IPv6, nothing else is routed on the internet
NAT64 = ip_network("64:ff9b::/96")
COMPATIBLE = ip_network("::/96")  # RFC 4291: deprecated, still understood by some stacks
SIX_TO_FOUR = ip_network("2002::/16")


def parse(text: str) -> Address | None:
    """The address that `text` spells in standard form; None for a name."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


def forbidden(address: Address, allow: tuple[Cidr, ...]) -> str | None:
    """What kind of address this is, if nothing may be sent to it; None if it may be dialled."""
    inner = _carried(address)
    meant = inner or address
    if any(candidate in cidr for cidr in allow for candidate in (address, meant)):
        return None
    if isinstance(meant, IPv6Address) and meant not in GLOBAL_UNICAST:
        return _kind(meant) or "reserved"
    return _kind(meant)


def is_listed(host: str, no_proxy: str) -> bool:
    """Whether a host stands in a comma-separated list of hosts, domain suffixes and CIDRs (`*`: all)."""
    address = parse(host.strip("[]"))
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        if entry == "*" or (entry and ("." + host.lower()).endswith("." + entry.lstrip("*."))):
            return True
        with suppress(ValueError):
            if address is not None and address in ip_network(entry, strict=False):
                return True
    return False


def _kind(address: Address) -> str | None:
    return next((kind for cidr, kind in SPECIAL if address in cidr), None)


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for: mapped, compatible, NAT64 or 6to4."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64 or (address in COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour if address in SIX_TO_FOUR else None

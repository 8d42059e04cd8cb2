"""Which addresses may be dialled, in whatever way they are written."""

from ipaddress import ip_address, ip_network

import pytest

from channels.addresses import forbidden

PRIVATE = [
    "0.0.0.0",  # noqa: S104  an address, not a socket
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "169.254.170.2",
    "168.63.129.16",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "47.1.2.3",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "2606:4700::1111",
    "2400:3200::1",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_not_without_leave(address):
    assert forbidden(ip_address(address), ()) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address):
    assert forbidden(ip_address(address), ()) is None


@pytest.mark.parametrize(
    ("address", "cidr"),
    [
        ("10.1.2.3", "10.0.0.0/8"),
        ("::ffff:10.1.2.3", "10.0.0.0/8"),
        ("64:ff9b::a01:203", "10.0.0.0/8"),
        ("fd12::1", "fd12::/16"),
        ("127.0.0.1", "127.0.0.1/32"),
    ],
)
def test_what_the_operator_admits(address, cidr):
    assert forbidden(ip_address(address), (ip_network(cidr),)) is None


def test_one_network_admits_no_other():
    assert forbidden(ip_address("192.168.0.1"), (ip_network("10.0.0.0/8"),)) == "private"


def test_the_reason_is_the_kind_of_address():
    assert forbidden(ip_address("100.100.100.200"), ()) == "a cloud metadata service"
    assert forbidden(ip_address("169.254.169.254"), ()) == "link-local"

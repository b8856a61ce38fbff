import socket

import pytest
from pricekit_images.unusable import UnusableError
from pricekit_images.web.addresses import ALLOW, is_allowed, is_public, resolve

from pricekit.plugin import ConfigError

PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
    *("224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "::127.0.0.1"),
    *("192.88.99.1", "168.63.129.16", "192.0.0.8", "198.51.100.1", "203.0.113.1"),
    *("fec0::1", "64:ff9b:1::a00:1", "::ffff:0:10.0.0.1", "3fff::1", "5f00::1", "4000::1", "100::1"),
    *("2001:4860::5efe:0a00:0001", "2001:4860::200:5efe:0a00:0001", "2001:4860::5efe:5db8:d822"),
    *("2001::1", "2001:2::1", "2001:20::1", "2002:5db8:d822::1", "2606:2800::1%eth0", "::ffff:93.184.216.34"),
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_this_network_are_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "2001:4860:4860::8888", "64:ff9b::5db8:d822"],
)
def test_other_addresses_are_public(address):
    assert is_public(address)


def test_networks_can_be_allowed(monkeypatch, raises):
    assert not is_allowed("10.1.0.7")
    monkeypatch.setenv(ALLOW, "10.1.0.0/16, ::1")
    assert is_allowed("10.1.0.7")
    assert is_allowed("::1")
    assert not is_allowed("10.2.0.7")
    monkeypatch.setenv(ALLOW, "localhost")
    with raises(ConfigError):
        is_allowed("10.1.0.7")


def answers(*addresses):
    return lambda *args, **kwargs: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 80)) for a in addresses]


def test_a_host_with_one_private_address_is_refused(monkeypatch, raises):
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34", "10.0.0.1"))
    with raises(UnusableError):
        resolve("shop.example", 80)
    monkeypatch.setattr(socket, "getaddrinfo", answers("93.184.216.34"))
    assert resolve("shop.example", 80) == "93.184.216.34"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]".strip("[]"), "0"])
def test_spellings_of_this_machine_are_refused(host, raises):
    with raises(UnusableError):
        resolve(host, 80)


def test_hosts_that_do_not_exist_have_a_reason(monkeypatch, raises):
    def fails(code):
        def raises(*args, **kwargs):
            raise socket.gaierror(code, "no")

        return raises

    for code, final in ((socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)):
        monkeypatch.setattr(socket, "getaddrinfo", fails(code))
        with raises(UnusableError) as found:
            resolve("shop.example", 80)
        assert found.value.final is final
    monkeypatch.undo()
    with raises(UnusableError):
        resolve("a" * 70 + ".example", 80)

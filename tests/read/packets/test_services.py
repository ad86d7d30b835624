from __future__ import annotations

import polars as pl
import pytest

from kvec.read.packets.services import SERVICES, service_of, services_of


@pytest.mark.parametrize(
    ("flow", "service"),
    [
        (("tcp", 50000, 443), "https"),
        (("udp", 50000, 443), "quic"),
        (("udp", 40000, 53), "dns"),
        (("udp", 53, 40000), "dns"),  # seen from the answer on
        (("tcp", 8080, 40001), None),  # a client may happen to use this port
        (("tcp", 22, 80), "http"),
        (("sctp", 5000, 3868), "diameter"),
        (("icmp", 8, 0), "icmp"),
        (("tcp", 40000, 40001), None),
        (("udp", 123, 123), "ntp"),
    ],
)
def test_services(flow: tuple[str, int, int], service: str | None) -> None:
    assert service_of(*flow) == service


def test_flows_in_a_frame() -> None:
    flows = pl.DataFrame(
        {"protocol": ["udp", "tcp", "udp"], "client_port": [4000, 5000, 4000], "server_port": [53, 9, 53]}
    )
    assert services_of(flows).to_list() == ["dns", "discard", "dns"]


def test_the_table_is_sound() -> None:
    assert all(0 < port < 65_536 and name == name.lower() and " " not in name for (_, port), name in SERVICES.items())

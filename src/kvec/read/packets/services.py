"""Services by their well-known ports: a table of our own, so that labels are the same on every machine."""

from __future__ import annotations

import polars as pl

_BOTH = """
7 echo 9 discard 13 daytime 19 chargen 37 time 53 dns 88 kerberos 111 portmap 123 ntp 135 msrpc 137 netbios
138 netbios 139 netbios 161 snmp 162 snmp 389 ldap 427 slp 464 kerberos 500 isakmp 514 syslog 546 dhcpv6 547 dhcpv6
554 rtsp 623 ipmi 636 ldaps 853 dns-over-tls 1194 openvpn 1701 l2tp 1812 radius 1813 radius 2049 nfs 3389 rdp
3478 stun 3479 stun 3702 ws-discovery 4500 ipsec 5004 rtp 5005 rtcp 5060 sip 5061 sips 5349 stuns 5353 mdns 5355 llmnr
5683 coap 5684 coaps 10000 ndmp 11211 memcached 19302 stun 20000 dnp3 44818 ethernet-ip 47808 bacnet
"""
_TCP = """
20 ftp-data 21 ftp 22 ssh 23 telnet 25 smtp 43 whois 49 tacacs 70 gopher 79 finger 80 http 81 http 102 s7comm 110 pop3
113 ident 119 nntp 143 imap 179 bgp 194 irc 443 https 445 smb 465 smtps 502 modbus 513 rlogin 515 printer 523 db2
548 afp 563 nntps 587 smtp 631 ipp 843 flash-policy 873 rsync 902 vmware 989 ftps-data 990 ftps 993 imaps 995 pop3s
1080 socks 1352 lotus-notes 1433 mssql 1494 citrix 1521 oracle 1720 h323 1723 pptp 1883 mqtt 1935 rtmp 2082 cpanel
2083 cpanel 2181 zookeeper 2222 ssh 2375 docker 2376 docker 2379 etcd 2404 iec104 3000 http 3128 http-proxy 3260 iscsi
3306 mysql 3690 svn 4369 epmd 5000 http 5190 aim 5222 xmpp 5223 xmpp 5228 google-push 5269 xmpp 5432 postgresql
5555 adb 5671 amqps 5672 amqp 5900 vnc 5901 vnc 5984 couchdb 5985 winrm 5986 winrm 6379 redis 6443 kubernetes 6667 irc
6697 ircs 6881 bittorrent 7547 cwmp 8000 http 8008 http 8009 google-cast 8080 http 8081 http 8086 influxdb 8088 http
8118 http-proxy 8333 bitcoin 8443 https 8883 mqtts 8888 http 9000 http 9042 cassandra 9090 http 9092 kafka
9100 printer 9200 elasticsearch 9300 elasticsearch 9418 git 11434 ollama 15672 rabbitmq 25565 minecraft 27017 mongodb
50000 db2 50051 grpc
"""
_UDP = """
67 dhcp 68 dhcp 69 tftp 80 quic 177 xdmcp 443 quic 520 rip 521 ripng 1434 mssql 1645 radius 1646 radius 1900 ssdp
2055 netflow 2123 gtp 2152 gtp 3544 teredo 3784 bfd 4739 ipfix 4789 vxlan 5351 nat-pmp 6081 geneve 6343 sflow
6881 bittorrent 8801 zoom 17500 dropbox-lan 27015 steam 33434 traceroute 34964 profinet 41641 tailscale
51820 wireguard
"""
_SCTP = "2905 m3ua 3868 diameter 36412 s1ap 36422 x2ap 38412 ngap 2944 megaco 9899 sctp-tunnel"
PORTLESS = ("icmp", "icmp6", "igmp", "gre", "esp", "ah", "ospf", "pim", "vrrp")  # protocols that are their own service
RESERVED = 1024  # only below it can the client's port be the service's: the flow was seen from its answer on


def _pairs(text: str) -> dict[int, str]:
    words = text.split()
    return {int(port): name for port, name in zip(words[::2], words[1::2], strict=True)}


SERVICES: dict[tuple[str, int], str] = {
    (protocol, port): name
    for protocol, text in (("tcp", _BOTH), ("udp", _BOTH), ("tcp", _TCP), ("udp", _UDP), ("sctp", _SCTP))
    for port, name in _pairs(text).items()
}


def service_of(protocol: str, client_port: int, server_port: int) -> str | None:
    """The service of a flow by its server's port, else by its client's where that is a reserved one.

    >>> service_of("tcp", 50000, 443), service_of("udp", 53, 40000), service_of("tcp", 40000, 50001)
    ('https', 'dns', None)
    """
    if protocol in PORTLESS:
        return protocol
    found = SERVICES.get((protocol, server_port))
    return found or (SERVICES.get((protocol, client_port)) if client_port < RESERVED else None)


def services_of(flows: pl.DataFrame) -> pl.Series:
    """The service of each flow (protocol, client_port, server_port); None where the ports say nothing."""
    ends = ["protocol", "client_port", "server_port"]
    kinds = flows.select(ends).unique(maintain_order=True)
    kinds = kinds.with_columns(pl.Series("service", [service_of(*row) for row in kinds.rows()], dtype=pl.String))
    return flows.select(ends).join(kinds, on=ends, how="left", maintain_order="left")["service"]

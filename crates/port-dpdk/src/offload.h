/* Checksums that a device verifies or makes. Included by shim.c alone. */

#ifndef WEIR_OFFLOAD_H
#define WEIR_OFFLOAD_H

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>

/* Bits of what is asked of a device, and of what it does. */
#define WEIR_VERIFY_UDP 1
#define WEIR_COMPLETE_UDP6 2

/* What a device says of the outermost UDP checksum of a received packet. */
#define WEIR_SUM_UNKNOWN 0
#define WEIR_SUM_GOOD 1
#define WEIR_SUM_BAD 2

/* Takes from `wanted` what the device does not have; adds the rest to what it is configured with. */
static inline uint8_t weir_offloads_ask(const struct rte_eth_dev_info *info, uint8_t wanted, struct rte_eth_conf *conf)
{
	const uint64_t verify = RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
	const uint64_t complete = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	uint8_t granted = 0;

	if ((wanted & WEIR_VERIFY_UDP) && (info->rx_offload_capa & verify)) {
		/* Of packets in tunnels that it knows, a device tells the outer checksum apart. */
		conf->rxmode.offloads |= verify | (info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_OUTER_UDP_CKSUM);
		granted |= WEIR_VERIFY_UDP;
	}
	if ((wanted & WEIR_COMPLETE_UDP6) && (info->tx_offload_capa & complete)) {
		conf->txmode.offloads |= complete;
		granted |= WEIR_COMPLETE_UDP6;
	}
	return granted;
}

/* A device that looks into tunnels may speak of the inner checksum: its word counts for the outer one where it says so, or
 * saw no tunnel. */
static inline uint8_t weir_verdict(const struct rte_mbuf *m)
{
	const uint64_t outer = m->ol_flags & RTE_MBUF_F_RX_OUTER_L4_CKSUM_MASK;
	const uint64_t own = m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;
	const uint32_t inner = RTE_PTYPE_INNER_L2_MASK | RTE_PTYPE_INNER_L3_MASK | RTE_PTYPE_INNER_L4_MASK;
	const uint32_t inside = RTE_PTYPE_TUNNEL_MASK | inner;

	if (likely((outer | own) == 0))
		return WEIR_SUM_UNKNOWN;
	if (outer == RTE_MBUF_F_RX_OUTER_L4_CKSUM_GOOD)
		return WEIR_SUM_GOOD;
	if (outer == RTE_MBUF_F_RX_OUTER_L4_CKSUM_BAD)
		return WEIR_SUM_BAD;
	if ((m->packet_type & inside) != 0 || (m->packet_type & RTE_PTYPE_L4_MASK) != RTE_PTYPE_L4_UDP)
		return WEIR_SUM_UNKNOWN;
	if (own == RTE_MBUF_F_RX_L4_CKSUM_GOOD)
		return WEIR_SUM_GOOD;
	return own == RTE_MBUF_F_RX_L4_CKSUM_BAD ? WEIR_SUM_BAD : WEIR_SUM_UNKNOWN;
}

/* Has the device make the checksum of UDP over IPv6, which begins `l2_len` bytes into the packet, without extension
 * headers. */
static inline void weir_leave_sum(struct rte_mbuf *m, uint8_t l2_len)
{
	m->tx_offload = 0;
	m->l2_len = l2_len;
	m->l3_len = sizeof(struct rte_ipv6_hdr);
	m->l4_len = sizeof(struct rte_udp_hdr);
	m->ol_flags |= RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_UDP_CKSUM;
}

/* Makes it here. */
static inline void weir_make_sum(struct rte_mbuf *m)
{
	struct rte_ipv6_hdr *ip = rte_pktmbuf_mtod_offset(m, struct rte_ipv6_hdr *, m->l2_len);
	struct rte_udp_hdr *udp = (struct rte_udp_hdr *)(ip + 1);

	m->ol_flags &= ~(RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_UDP_CKSUM);
	udp->dgram_cksum = 0;
	udp->dgram_cksum = rte_ipv6_udptcp_cksum(ip, udp);
}

/* Lets the driver see to packets (64 at most) that it is to do something about; what it refuses is done here. Returns those
 * whose checksum the device makes, a bit each. */
static inline uint64_t weir_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	uint64_t by_device = 0;
	uint16_t done = 0;

	while (done < n) {
		done += rte_eth_tx_prepare(port, queue, mbufs + done, n - done);
		if (done < n) {
			if (mbufs[done]->ol_flags & RTE_MBUF_F_TX_UDP_CKSUM)
				weir_make_sum(mbufs[done]);
			else
				done++;
		}
	}
	for (uint16_t i = 0; i < n; i++)
		if (mbufs[i]->ol_flags & RTE_MBUF_F_TX_UDP_CKSUM)
			by_device |= UINT64_C(1) << i;
	return by_device;
}

#endif

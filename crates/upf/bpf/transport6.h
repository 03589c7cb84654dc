// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// GTP-U over IPv6.
#ifndef WEIR_TRANSPORT6_H
#define WEIR_TRANSPORT6_H
#include "sum.h"

// As transport4, of IPv6; extension headers are the user-space path's. The checksum is left to the user's packet, as there.
static __always_inline __u32 transport6(const struct run *run, const struct ip6 *ip, const void *end, const __u8 marks)
{
	if ((const void *)(ip + 1) > end || ip->next != PROTO_UDP)
		return 0;
	__u32 first = bpf_ntohl(ip->first);
	__u64 to[2] = { bpf_be64_to_cpu(ip->dst[0]), bpf_be64_to_cpu(ip->dst[1]) };

	if (first >> 28 != 6 || first >> 20 & marks || !is_mine6(run->port, to))
		return 0;
	return sizeof(*ip) + bpf_ntohs(ip->len);
}

// Headers of the tunnel before a user's packet, for which there is room, and which ends with the frame.
static __always_inline void put_tunnel6(struct ip6 *ip, const struct weir_tunnel *tunnel, const struct weir_rule *rule,
					__u16 outer, __u8 tos)
{
	struct udp *udp = (void *)(ip + 1);
	struct gtpu *gtpu = (void *)(udp + 1);
	const __u32 *header = (const void *)tunnel->header6;
	__u16 len = bpf_htons(outer - sizeof(*ip));

#pragma unroll
	for (int n = 0; n < 10; n++)
		((__u32 *)ip)[n] = header[n];
	ip->first = bpf_htonl(6U << 28 | (__u32)tos << 20);
	ip->len = len;
	udp->src = udp->dst = bpf_htons(PORT_GTPU);
	udp->len = len;
	udp->check = 0;
	gtpu->type = 0xff;
	gtpu->len = bpf_htons(outer - sizeof(*ip) - 16);
	gtpu->teid = bpf_htonl(rule->teid);
}

static __always_inline int into_tunnel6(struct run *run, const struct user *user, const struct weir_tunnel *tunnel,
					const struct weir_rule *rule, const int overhead, __u32 tags)
{
	struct xdp_md *ctx = run->ctx;
	__u8 tos = rule->dscp == WEIR_NONE8 ? user->tos : rule->dscp << 2 | (user->tos & 3);

	if (bpf_xdp_adjust_head(ctx, (int)run->tags - overhead - (int)tags))
		return drop(run, WEIR_NO_HEADROOM, user->total);
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, tags), *outer = behind + 14, *packet = outer + overhead;

	if (data + MOST_LINK > end || packet + sizeof(struct ip4) > end)
		return drop(run, WEIR_NO_HEADROOM, user->total);
	struct udp *udp = outer + sizeof(struct ip6);
	struct gtpu *gtpu = (void *)(udp + 1);
	struct container *container = (void *)(gtpu + 1);

	decrement_ttl(packet, user->is6);
	put_tunnel6(outer, tunnel, rule, user->total + overhead, tos);
	gtpu->flags = overhead == 64 ? 0x34 : 0x30;
	if (overhead == 64) {
		*(__be32 *)container = bpf_htonl(0x85);
		*(__be32 *)&container->len = bpf_htonl(0x01000000 | (__u32)rule->qfi << 8);
	}
	if (!(tunnel->flags & WEIR_ZERO_SUM)) {
		// The pseudo header's length is once more the datagram's.
		__u64 sum = (__u64)bpf_htons(tunnel->sum) + udp->len + sum_words(udp, overhead - 40);

		sum += sum_to_end(packet, end, user->total);
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		behind = behind_tags(data, tags);
		udp = behind + 14 + sizeof(struct ip6);
		if (data + MOST_LINK > end || (void *)(udp + 1) > end)
			return drop(run, WEIR_NO_HEADROOM, user->total);
		udp->check = finish_udp(sum);
	}
	put_link(data, behind, &tunnel->next, tags);
	return send(run, tunnel->next.port, WEIR_DOWN_PACKETS, user->total);
}

#endif

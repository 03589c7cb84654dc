// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Answers to GTP-U Echo Requests without the process (TS 29.281, 7.2): by them gNBs see whether the path is alive.
#ifndef WEIR_ECHO_H
#define WEIR_ECHO_H
#include "transport6.h"

struct optional {
	__be16 sequence;
	__u8 npdu, next;
};

// An Echo Response's recovery element, which means nothing.
struct recovery {
	__u8 type, count;
};

#define ECHO_REQUEST 1
#define ECHO_RESPONSE 2
#define MESSAGE (sizeof(struct udp) + sizeof(struct gtpu) + sizeof(struct optional) + sizeof(struct recovery))

// Whether an address is one host's, which can be answered.
static __always_inline int is_one_host4(__u32 address)
{
	return address && address >> 24 != 127 && address >> 28 != 14 && address != ~0U;
}

static __always_inline int is_one_host6(const __u64 *address)
{
	return address[0] >> 56 != 0xff && (address[0] || address[1] > 1);
}

// An Echo Request to us, whose IP header is at `at`: its sequence number; none: -1.
static __always_inline int echo_request(const struct run *run, __u32 at, const int is6)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	const __u32 ip_len = is6 ? 40 : 20;
	__u32 total = is6 ? transport6(run, data + at, end, 0) : transport4(run, data + at, end, 0);
	struct udp *udp = data + at + ip_len;
	struct gtpu *gtpu = (void *)(udp + 1);
	struct optional *optional = (void *)(gtpu + 1);

	if ((void *)(gtpu + 1) > end || udp->dst != bpf_htons(PORT_GTPU))
		return -1;
	__u32 datagram = bpf_ntohs(udp->len), message = bpf_ntohs(gtpu->len);

	if (datagram < 16 || ip_len + datagram > total || at + total > length_of(run->ctx) || 16 + message > datagram)
		return -1;
	// Version 1, protocol type 1; no extension headers.
	if ((gtpu->flags & 0xf4) != 0x30 || gtpu->type != ECHO_REQUEST)
		return -1;
	if (!(gtpu->flags & 3))
		return 0;
	if (message < 4 || (void *)(optional + 1) > end)
		return -1;
	return gtpu->flags & 2 ? bpf_ntohs(optional->sequence) : 0;
}

static __always_inline void put_echo(struct udp *udp, __be16 port, int sequence)
{
	struct gtpu *gtpu = (void *)(udp + 1);
	struct optional *optional = (void *)(gtpu + 1);
	struct recovery *recovery = (void *)(optional + 1);

	udp->src = bpf_htons(PORT_GTPU);
	udp->dst = port;
	udp->len = bpf_htons(MESSAGE);
	udp->check = 0;
	gtpu->flags = 0x32;
	gtpu->type = ECHO_RESPONSE;
	gtpu->len = bpf_htons(sizeof(*optional) + sizeof(*recovery));
	gtpu->teid = 0;
	optional->sequence = bpf_htons(sequence);
	optional->npdu = optional->next = 0;
	recovery->type = 14;
	recovery->count = 0;
}

// The sum of the datagram that put_echo has made, with what a pseudo header has beside addresses.
static __always_inline __u64 sum_echo(const struct udp *udp)
{
	const __u16 *last = (const void *)udp + MESSAGE - 2;

	return (__u64)bpf_htons(PROTO_UDP) + udp->len + sum_words(udp, MESSAGE - 2) + *last;
}

// The same frame's link header, tags and all, the other way; the sender's own addresses change places.
static __always_inline int answer_echo(struct run *run, __u32 at, const int is6)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	int sequence = run->port->role == WEIR_ACCESS ? echo_request(run, at, is6) : -1;
	struct ip6 *ip6 = data + at;
	struct ip4 *ip4 = data + at;
	const __u32 ip_len = is6 ? sizeof(*ip6) : sizeof(*ip4);
	struct udp *udp = data + at + ip_len;

	if (sequence < 0 || data + MOST_LINK > end || (void *)(udp + 1) > end)
		return XDP_DROP;
	__be16 port = udp->src;
	__be64 ends6[4];
	__be32 ends4[2];
	__u32 link[5];

	if (is6) {
		__u64 from[2] = { bpf_be64_to_cpu(ip6->src[0]), bpf_be64_to_cpu(ip6->src[1]) };

		if (!is_one_host6(from))
			return XDP_DROP;
		__builtin_memcpy(ends6, ip6->src, 32);
	} else {
		if (!is_one_host4(bpf_ntohl(ip4->src)))
			return XDP_DROP;
		ends4[0] = ip4->src;
		ends4[1] = ip4->dst;
	}
	__builtin_memcpy(link, data, 20);
	if (!may_answer(run, WEIR_ALONE_ECHO))
		return XDP_DROP;
	if (!resize(ctx, 14 + run->tags + ip_len + MESSAGE))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, run->tags);

	ip6 = behind + 14;
	ip4 = behind + 14;
	udp = behind + 14 + ip_len;
	if (data + MOST_LINK > end || (void *)udp + MESSAGE > end)
		return XDP_DROP;
	__builtin_memcpy(data, (__u8 *)link + 6, 6);
	__builtin_memcpy(data + 6, link, 6);
	if (run->tags > 0)
		*(__u32 *)(data + 12) = link[3];
	if (run->tags > 4)
		*(__u32 *)(data + 16) = link[4];
	*(__be16 *)(behind + 12) = is6 ? bpf_htons(0x86dd) : bpf_htons(0x0800);
	put_echo(udp, port, sequence);
	if (is6) {
		ip6->first = bpf_htonl(6U << 28);
		ip6->len = bpf_htons(MESSAGE);
		ip6->next = PROTO_UDP;
		ip6->limit = 64;
		__builtin_memcpy(ip6->src, &ends6[2], 16);
		__builtin_memcpy(ip6->dst, ends6, 16);
		udp->check = finish_udp(sum_echo(udp) + sum_words(ip6->src, 32));
		return XDP_TX;
	}
	*(__be32 *)ip4 = bpf_htonl(0x45000000 | (sizeof(*ip4) + MESSAGE));
	*(__be32 *)&ip4->id = bpf_htonl(0x4000);
	*(__be32 *)&ip4->ttl = bpf_htonl(64U << 24 | PROTO_UDP << 16);
	ip4->src = ends4[1];
	ip4->dst = ends4[0];
	ip4->check = ~sum20(ip4);
	udp->check = finish_udp(sum_echo(udp) + sum_words(&ip4->src, 8));
	return XDP_TX;
}

#define WEIR_ANSWERS(run, at, is6) answer_echo(run, at, is6)

#endif

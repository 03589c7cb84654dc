// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// NAT44 of flows that have a mapping. Whatever else there is to translate is the workers': first packets, TCP segments that
// open, end or reset a connection, ICMP errors, fragments, packets to public addresses from inside. Behind path.h and a
// record.h that includes nat.h.
#ifndef WEIR_TRANSLATE_H
#define WEIR_TRANSLATE_H
#include "nat.h"
#include "path.h"

SHARED(translation, weir_translation, 1);
SHARED(flows, weir_flow, 1);
SHARED(flow_index, weir_bucket, 1);

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
// How old the time of a flow's last packet may be, in ns: below half of a tick of the workers' timers.
#define STAMP_EVERY (1ULL << 26)

// What becomes of a packet's end, in a map: the verifier would follow each case through all that comes.
struct weir_readdressed {
	__u64 to;               // the key of its other end
	__u32 flow;             // the place of its flow
	__u32 session;          // the flow's
	__u32 is_there;         // 0: it keeps its end
	__u32 ends;             // it ends a connection
};

static __always_inline const struct weir_translation *translation_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&translation, &zero);
}

static __always_inline int is_translated(const struct weir_translation *nat, __u32 instance)
{
	return nat->translated >> (instance & 63) & 1;
}

// Whether an address is, or may be, a public one of the instance.
static __always_inline int is_public(const struct weir_translation *nat, __u32 instance, __u32 address)
{
	__u64 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_RANGES; n++) {
		const struct weir_range *range = &nat->ranges[n];
		__u64 above = (__u32)(address - range->first);

		asm volatile("" : "+r"(above));
		hits |= is_zero(range->instance ^ instance) & ~((range->span - above) >> 63);
	}
	return hits != 0;
}

// An end of a packet as flows have it, and what its TCP flags are. 0: none that a flow has.
static __always_inline __u64 end_of(const void *packet, const void *end, const struct user *user, __u32 instance,
				    __u32 address, __u16 port, __u32 *flags)
{
	const __u8 *transport = packet + sizeof(struct ip4);
	__u64 protocol = WEIR_NAT_UDP;

	*flags = 0;
	if (user->protocol == PROTO_TCP) {
		if (user->total < 38 || (const void *)(transport + 18) > end)
			return 0;
		*flags = transport[13] & (TCP_FIN | TCP_SYN | TCP_RST);
		protocol = WEIR_NAT_TCP;
	} else if (user->protocol == PROTO_ICMP) {
		if (user->total < 26 || (const void *)(transport + 6) > end || (transport[0] != 8 && transport[0] != 0))
			return 0;
		port = bpf_ntohs(*(const __be16 *)(transport + 4));
		protocol = WEIR_NAT_ICMP;
	} else if (user->total < 28 || user->protocol != PROTO_UDP) {
		return 0;
	}
	return (__u64)(instance & 63) << 50 | protocol << 48 | (__u64)port << 32 | address;
}

// The place, and 1, of the flow that may have an end (which is to be compared); 0: there is none. Public ends have other keys.
static __always_inline __u32 flow_of(const struct weir_translation *nat, __u64 key, const __u64 is_public_end)
{
	__u64 mixed = (key | is_public_end << 62) * nat->seed;

	mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93ULL;
	// Never 0, which is a free place.
	mixed = (mixed >> WEIR_NUMBER_BITS | 1ULL << 39) << WEIR_NUMBER_BITS;
	__u64 entry = in_index(&flow_index, nat->flow_bits, mixed, WEIR_NUMBER_BITS);

	return entry ? (entry & ((1U << WEIR_NUMBER_BITS) - 1)) + 1 : 0;
}

// The flow of a packet that a subscriber's session sends by an instance, in *way. 0: its worker has to see it.
static __always_inline int outward(const struct user *user, __u32 instance, __u32 session, const void *packet,
				   const void *end, struct weir_readdressed *way)
{
	const struct weir_translation *nat = translation_of();

	way->is_there = 0;
	if (!nat || !nat->flow_bits || user->is6)
		return 1;
	if (!nat->valid)
		return 0;
	if (!is_translated(nat, instance))
		return 1;
	__u64 key = end_of(packet, end, user, instance, user->src, user->src_port, &way->ends);

	if (!key || way->ends || is_public(nat, instance, user->dst))
		return 0;
	__u32 found = flow_of(nat, key, 0), at = found - 1;
	const struct weir_flow *flow = found ? bpf_map_lookup_elem(&flows, &at) : 0;

	if (!flow || !*(const volatile __u32 *)&flow->valid || flow->out_key != key || flow->session != session)
		return 0;
	way->to = flow->in_key;
	way->flow = at;
	way->is_there = 1;
	return 1;
}

// The flow of a packet that came in by an instance, in *way; the packet has its subscriber's end from here on. 0: workers have
// to see it, and no subscriber is known.
static __always_inline int inward(struct user *user, __u32 instance, const void *packet, const void *end,
				  struct weir_readdressed *way)
{
	const struct weir_translation *nat = translation_of();

	way->is_there = 0;
	if (!nat || !nat->flow_bits || user->is6)
		return 1;
	if (!nat->valid)
		return 0;
	if (!is_translated(nat, instance))
		return 1;
	__u64 key = end_of(packet, end, user, instance, user->dst, user->dst_port, &way->ends);

	if (!key)
		return 0;
	__u32 found = flow_of(nat, key, 1), at = found - 1;
	const struct weir_flow *flow = found ? bpf_map_lookup_elem(&flows, &at) : 0;

	if (!flow || !*(const volatile __u32 *)&flow->valid || flow->in_key != key)
		return 0;
	// Nothing changes by a connection that is opened from outside.
	way->ends &= TCP_FIN | TCP_RST;
	way->to = flow->out_key;
	way->flow = at;
	way->session = flow->session;
	way->is_there = 1;
	user->dst = way->to;
	if (user->protocol != PROTO_ICMP)
		user->dst_port = way->to >> 32;
	return 1;
}

// A packet of a flow has come, at that time.
static __always_inline void stamp_flow(const struct weir_readdressed *way, const int is_out, __u64 now)
{
	__u32 at = way->flow;
	struct weir_flow *flow = way->is_there ? bpf_map_lookup_elem(&flows, &at) : 0;

	if (!flow)
		return;
	__u64 *stamp = is_out ? &flow->out_ns : &flow->in_ns;

	if (now - *(volatile __u64 *)stamp > STAMP_EVERY)
		*(volatile __u64 *)stamp = now;
}

// A checksum of which what summed to `old` sums to `new` now (RFC 1624, equation 3), in network order like these.
static __always_inline __u16 mended(__u16 check, __u32 old, __u32 new)
{
	return ~fold((__u16)~check + (__u16)~fold(old) + fold(new));
}

// Gives a packet the address and port of a key in place of its source or its destination. 0: it is too short, and of no use any
// more.
static __always_inline int readdress(void *packet, const void *end, __u8 protocol, const int is_source, __u64 to)
{
	struct ip4 *ip = packet;
	__u16 *transport = (void *)(ip + 1), *port = transport + !is_source;

	if ((void *)(transport + 3) > end)
		return 0;
	__be32 *place = is_source ? &ip->src : &ip->dst;
	__u32 before = *place, address = bpf_htonl(to);
	__u16 number = bpf_htons(to >> 32);
	__u32 old = (before & 0xffff) + (before >> 16), new = (address & 0xffff) + (address >> 16);

	ip->check = mended(ip->check, old, new);
	*place = address;
	if (protocol == PROTO_ICMP) {
		transport[1] = mended(transport[1], transport[2], number);
		transport[2] = number;
		return 1;
	}
	old += *port;
	new += number;
	*port = number;
	if (protocol == PROTO_TCP) {
		if ((void *)(transport + 9) > end)
			return 0;
		transport[8] = mended(transport[8], old, new);
		return 1;
	}
	if ((void *)(transport + 4) > end)
		return 0;
	if (transport[3]) {
		__u16 check = mended(transport[3], old, new);

		// Zero says that there is none (RFC 768).
		transport[3] = check ? check : 0xffff;
	}
	return 1;
}

#endif

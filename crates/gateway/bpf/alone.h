// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Packets that no port takes, for the process is gone or hangs. Who asks for the gateway is answered as long as it may come back, so that
// neighbours go on sending; what else is to it is dropped, and not passed to a host that knows nothing of it. Answers are to the
// byte what the process would have sent: what it would have refused has none. Their rate is bounded, as that of a worker's answers.
#ifndef WEIR_ALONE_H
#define WEIR_ALONE_H
#include "path.h"
#include "sum.h"

struct arp {
	__be16 hardware, network;
	__u8 hardware_len, network_len;
	__be16 operation;
	__u8 sender[6], sender_ip[4], target[6], target_ip[4];
};

// A neighbour solicitation or advertisement (RFC 4861, 4.3 and 4.4), without its options.
struct discovery {
	__u8 type, code;
	__be16 check;
	__be32 flags;
	__be64 target[2];
} __attribute__((packed, aligned(4)));

struct link_option {
	__u8 kind, len, mac[6];
};

#define NEIGHBOUR_SOLICITATION 135
#define NEIGHBOUR_ADVERTISEMENT 136
#define SOURCE_LINK 1
#define TARGET_LINK 2
#define MIN_FRAME 60        /* the least length of an Ethernet frame without its check sequence */

// What a gateway answers beside, of an IP packet to an address of the port: the verdict.
#ifndef WEIR_ANSWERS
#define WEIR_ANSWERS(run, at, is6) XDP_DROP
#endif

// Whether a hardware address is one station's: no group's, and not zero.
static __always_inline int is_station(const __u8 *mac)
{
	return !(mac[0] & 1) && (mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]);
}

// Four bytes as they lie in a packet, as a number.
static __always_inline __u32 number_of(const __u8 *bytes)
{
	return (__u32)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

// Whether a frame is to the port, or to a group of IPv6.
static __always_inline int is_for_port(const struct run *run, const struct eth *eth, const void *end, int is_group)
{
	const __u8 *mac = run->port->mac;

	if ((const void *)(eth + 1) > end)
		return 0;
	if (is_group && eth->to[0] & 1)
		return 1;
	return run->port->any_mac || (*(__u32 *)eth->to == *(__u32 *)mac && *(__u16 *)&eth->to[4] == *(__u16 *)&mac[4]);
}

// Puts the link header of an answer of ours, with the port's tags.
static __always_inline void put_ethernet(const struct run *run, void *data, void *behind, const __u8 *to, __be16 type)
{
	struct eth *eth = data;

	__builtin_memcpy(eth->to, to, 6);
	__builtin_memcpy(eth->from, run->port->mac, 6);
	if (run->tags > 0)
		*(__u32 *)(data + 12) = run->port->tag[0];
	if (run->tags > 4)
		*(__u32 *)(data + 16) = run->port->tag[1];
	*(__be16 *)(behind + 12) = type;
}

// Who has our address is told (RFC 826).
static __always_inline int answer_arp(struct run *run, __u32 at)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct arp *arp = data + at;

	if ((void *)(arp + 1) > end || arp->hardware != bpf_htons(1) || arp->network != bpf_htons(0x0800) ||
	    arp->hardware_len != 6 || arp->network_len != 4 || arp->operation != bpf_htons(1) || run->port->any_mac)
		return XDP_PASS;
	__u32 wanted = number_of(arp->target_ip), from = number_of(arp->sender_ip);
	// Several hosts' addresses, and those of no link.
	int is_many = from >> 28 == 14 || from == ~0U || from >> 24 == 127;

	if (is_many || !is_station(arp->sender) || !is_mine(run->port, wanted) || !is_for_port(run, data, end, 1))
		return XDP_PASS;
	__u8 sender[6], sender_ip[4], ours[4];

	__builtin_memcpy(sender, arp->sender, 6);
	__builtin_memcpy(sender_ip, arp->sender_ip, 4);
	__builtin_memcpy(ours, arp->target_ip, 4);
	if (!may_answer(run, WEIR_ALONE_ARP))
		return XDP_DROP;
	if (!resize(ctx, MIN_FRAME))
		return XDP_PASS;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, run->tags);

	arp = behind + 14;
	if (data + MIN_FRAME > end || (void *)(arp + 1) > end)
		return XDP_DROP;
	// Padding, some of which the tags take.
	__builtin_memset(data + 42, 0, MIN_FRAME - 42);
	put_ethernet(run, data, behind, sender, bpf_htons(0x0806));
	arp->hardware = bpf_htons(1);
	arp->network = bpf_htons(0x0800);
	arp->hardware_len = 6;
	arp->network_len = 4;
	arp->operation = bpf_htons(2);
	__builtin_memcpy(arp->sender, run->port->mac, 6);
	__builtin_memcpy(arp->sender_ip, ours, 4);
	__builtin_memcpy(arp->target, sender, 6);
	__builtin_memcpy(arp->target_ip, sender_ip, 4);
	return XDP_TX;
}

// Who asks for an address, if all is as RFC 4861, 7.1.1, has it: its hardware address is put into `asker`. 0: it is not, or there are
// options that are not of the usual length.
static __always_inline int is_solicitation(const struct eth *eth, const struct ip6 *ip, const void *end, __u8 *asker)
{
	const struct discovery *asked = (const void *)(ip + 1);
	const struct link_option *options = (const void *)(asked + 1);
	__u32 len = bpf_ntohs(ip->len), has_link = 0;

	if (ip->limit != 255 || asked->code || (len != 24 && len != 32 && len != 40))
		return 0;
	__u64 sum = sum_words(ip->src, 32) + bpf_htons(PROTO_ICMP6) + ip->len + sum_words(asked, 24);

	__builtin_memcpy(asker, eth->from, 6);
#pragma unroll
	for (int n = 0; n < 2; n++) {
		const struct link_option *option = &options[n];

		if (len < 32 + 8 * (__u32)n)
			break;
		if ((const void *)(option + 1) > end || option->len != 1)
			return 0;
		sum += sum_words(option, 8);
		if (option->kind == SOURCE_LINK && !has_link) {
			if (!is_station(option->mac))
				return 0;
			__builtin_memcpy(asker, option->mac, 6);
			has_link = 1;
		}
	}
	if (fold64(sum) != 0xffff || (bpf_be64_to_cpu(ip->src[0]) >> 56) == 0xff)
		return 0;
	if (ip->src[0] | ip->src[1])
		return 1;
	// Detection of duplicates asks the target's group, and names no hardware address.
	return !has_link && ip->dst[0] == bpf_cpu_to_be64(0xff02ULL << 48) &&
	       bpf_be64_to_cpu(ip->dst[1]) == (0x1ff000000ULL | (bpf_be64_to_cpu(asked->target[1]) & 0xffffff));
}

// Who has our address is told (RFC 4861, 7.2.4).
static __always_inline int answer_neighbour(struct run *run, __u32 at)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ip6 *ip = data + at;
	struct discovery *message = (void *)(ip + 1);
	__u8 asker[6];

	if ((void *)(message + 1) > end || at + sizeof(*ip) + bpf_ntohs(ip->len) > length_of(ctx))
		return XDP_PASS;
	__u64 wanted[2] = { bpf_be64_to_cpu(message->target[0]), bpf_be64_to_cpu(message->target[1]) };
	int is_group = bpf_be64_to_cpu(ip->dst[0]) >> 56 == 0xff;

	if (run->port->any_mac || !is_mine6(run->port, wanted) || !is_for_port(run, data, end, is_group) ||
	    !is_solicitation(data, ip, end, asker)) {
		__u64 own[2] = { bpf_be64_to_cpu(ip->dst[0]), bpf_be64_to_cpu(ip->dst[1]) };

		return is_mine6(run->port, own) ? XDP_DROP : XDP_PASS;
	}
	__be64 to[2] = { ip->src[0], ip->src[1] };
	__u32 flags = 0xe0; // router, solicited, override

	if (!(to[0] | to[1])) {
		// To all nodes.
		const __u8 all[6] = { 0x33, 0x33, 0, 0, 0, 1 };

		__builtin_memcpy(asker, all, 6);
		to[0] = bpf_cpu_to_be64(0xff02ULL << 48);
		to[1] = bpf_cpu_to_be64(1);
		flags = 0xa0;
	}
	if (!may_answer(run, WEIR_ALONE_NEIGHBOUR))
		return XDP_DROP;
	if (!resize(ctx, 14 + run->tags + sizeof(*ip) + sizeof(*message) + sizeof(struct link_option)))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, run->tags);

	ip = behind + 14;
	message = (void *)(ip + 1);
	struct link_option *option = (void *)(message + 1);

	if (data + MOST_LINK > end || (void *)(option + 1) > end)
		return XDP_DROP;
	put_ethernet(run, data, behind, asker, bpf_htons(0x86dd));
	ip->first = bpf_htonl(6U << 28);
	ip->len = bpf_htons(sizeof(*message) + sizeof(*option));
	ip->next = PROTO_ICMP6;
	ip->limit = 255;
	ip->src[0] = message->target[0] = bpf_cpu_to_be64(wanted[0]);
	ip->src[1] = message->target[1] = bpf_cpu_to_be64(wanted[1]);
	ip->dst[0] = to[0];
	ip->dst[1] = to[1];
	message->type = NEIGHBOUR_ADVERTISEMENT;
	message->code = 0;
	message->check = 0;
	message->flags = bpf_htonl(flags << 24);
	option->kind = TARGET_LINK;
	option->len = 1;
	__builtin_memcpy(option->mac, run->port->mac, 6);
	message->check = ~fold64(sum_words(ip->src, 32) + bpf_htons(PROTO_ICMP6) + ip->len + sum_words(message, 32));
	return XDP_TX;
}

static __always_inline int alone6(struct run *run, __u32 at, int is_awaited)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	const struct ip6 *ip = data + at;

	if ((void *)(ip + 1) > end)
		return XDP_PASS;
	const __u8 *type = (void *)(ip + 1);

	if (ip->next == PROTO_ICMP6 && (void *)(type + 1) <= end && *type == NEIGHBOUR_SOLICITATION && is_awaited)
		return answer_neighbour(run, at);
	__u64 to[2] = { bpf_be64_to_cpu(ip->dst[0]), bpf_be64_to_cpu(ip->dst[1]) };

	if (!is_mine6(run->port, to))
		return XDP_PASS;
	return is_awaited && is_for_port(run, data, end, 0) ? WEIR_ANSWERS(run, at, 1) : XDP_DROP;
}

static __always_inline int alone(struct run *run)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	__u32 interface = run->ctx->ingress_ifindex, zero = 0;

	run->port = bpf_map_lookup_elem(&ports, &interface);
	run->config = bpf_map_lookup_elem(&config, &zero);
	if (!run->config || !run->port)
		return XDP_PASS;
	__be16 type = type_behind_tags(run, data, end);

	if (!run->port->role)
		return XDP_PASS;
	__u32 at = 14 + run->tags;
	// Nobody is to be drawn to a gateway that does not come back.
	int is_awaited = is_attended(run, bpf_ktime_get_ns());

	if (type == bpf_htons(0x0806))
		return is_awaited ? answer_arp(run, at) : XDP_PASS;
	if (type == bpf_htons(0x86dd))
		return alone6(run, at, is_awaited);
	const struct ip4 *ip = data + at;

	if (type != bpf_htons(0x0800) || (void *)(ip + 1) > end || !is_mine(run->port, bpf_ntohl(ip->dst)))
		return XDP_PASS;
	return is_awaited && is_for_port(run, data, end, 0) ? WEIR_ANSWERS(run, at, 0) : XDP_DROP;
}

SEC("xdp") int weir_alone(struct xdp_md *ctx)
{
	__u32 number = bpf_get_smp_processor_id();
	struct run run = { .ctx = ctx, .cpu = bpf_map_lookup_elem(&cpus, &number), .counter = WEIR_ALONE_DROPPED };
	int verdict = alone(&run);

	if (verdict != XDP_PASS && run.cpu && run.counter < WEIR_COUNTS)
		run.cpu->counts[run.counter]++;
	return verdict;
}

// What is left to a process that hangs is answered as if it were dead, and is its own otherwise: it may go on.
SEC("xdp") int weir_hung(struct xdp_md *ctx)
{
	__u32 number = bpf_get_smp_processor_id();
	struct run run = { .ctx = ctx, .cpu = bpf_map_lookup_elem(&cpus, &number), .counter = WEIR_ALONE_DROPPED };
	int verdict = alone(&run);

	if (verdict == XDP_TX) {
		if (run.cpu && run.counter < WEIR_COUNTS)
			run.cpu->counts[run.counter]++;
		return verdict;
	}
	if (run.cpu)
		run.cpu->counts[WEIR_OTHER]++;
	bpf_tail_call(ctx, &user_space, ctx->ingress_ifindex);
	return XDP_PASS;
}

#endif

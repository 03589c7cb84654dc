// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs themselves, behind a gateway's `static __always_inline int known(struct run *run)`: what becomes of a packet, or
// OTHER.

SEC("xdp") int weir_fastpath(struct xdp_md *ctx)
{
	__u32 number = bpf_get_smp_processor_id();
	struct run run = { .ctx = ctx, .cpu = bpf_map_lookup_elem(&cpus, &number) };
	int verdict = OTHER;

	if (LIKELY(run.cpu)) {
		// A barrier: nothing that follows is read before whoever waits for the CPUs can see this.
		__u64 before = __sync_fetch_and_add(&run.cpu->started, 1);

		asm volatile("" : : "r"(before) : "memory");
		__u64 begun = before & (WEIR_SAMPLE - 1) ? 0 : bpf_ktime_get_ns();

		verdict = known(&run);
		if (begun && verdict != OTHER) {
			run.cpu->counts[WEIR_SAMPLES]++;
			run.cpu->counts[WEIR_SAMPLED_NS] += bpf_ktime_get_ns() - begun;
		}
		run.cpu->counts[WEIR_OTHER] += verdict == OTHER;
		// A barrier as well, for which its result has to be used: what was counted can be seen before this.
		__u64 ended = __sync_fetch_and_add(&run.cpu->ended, 1);

		asm volatile("" : : "r"(ended) : "memory");
	}
	if (verdict != OTHER)
		return verdict;
	bpf_tail_call(ctx, &user_space, ctx->ingress_ifindex);
	return XDP_PASS;
}

struct arp {
	__be16 hardware, network;
	__u8 hardware_len, network_len;
	__be16 operation;
	__u8 sender[6], sender_ip[4], target[6], target_ip[4];
};

static __always_inline void swap_ends(struct eth *eth, const __u8 *mac)
{
	__builtin_memcpy(eth->to, eth->from, 6);
	__builtin_memcpy(eth->from, mac, 6);
}

// Who has our address is told (RFC 826): the same frame, back.
static __always_inline int answer_arp(struct run *run, struct eth *eth, struct arp *arp, const void *end)
{
	const __u8 *mac = run->port->mac;

	if ((void *)(arp + 1) > end || arp->hardware != bpf_htons(1) || arp->network != bpf_htons(0x0800) ||
	    arp->operation != bpf_htons(1) || run->port->any_mac)
		return XDP_PASS;
	__u32 wanted = (__u32)arp->target_ip[0] << 24 | arp->target_ip[1] << 16 | arp->target_ip[2] << 8 | arp->target_ip[3];

	if (!is_mine(run->port, wanted))
		return XDP_PASS;
	__u8 ours[4];

	__builtin_memcpy(ours, arp->target_ip, 4);
	arp->operation = bpf_htons(2);
	__builtin_memcpy(arp->target, arp->sender, 6);
	__builtin_memcpy(arp->target_ip, arp->sender_ip, 4);
	__builtin_memcpy(arp->sender, mac, 6);
	__builtin_memcpy(arp->sender_ip, ours, 4);
	swap_ends(eth, mac);
	return XDP_TX;
}

// Packets that nobody takes, for the process is gone: who asks for our addresses is answered, so that neighbours go on
// sending; others to them are dropped, and not passed to a host that knows nothing of them.
static __always_inline int alone(struct run *run)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	__u32 interface = run->ctx->ingress_ifindex;

	run->port = bpf_map_lookup_elem(&ports, &interface);
	if (!run->port || !run->port->role)
		return XDP_PASS;
	__be16 type = type_behind_tags(run, data, end);
	__u32 at = 14 + run->tags;

	if (type == bpf_htons(0x0806))
		return answer_arp(run, data, data + at, end);
	if (type == bpf_htons(0x0800)) {
		const struct ip4 *ip = data + at;

		return (void *)(ip + 1) <= end && is_mine(run->port, bpf_ntohl(ip->dst)) ? XDP_DROP : XDP_PASS;
	}
	if (type == bpf_htons(0x86dd)) {
		const struct ip6 *ip = data + at;

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		__u64 to[2] = { bpf_be64_to_cpu(ip->dst[0]), bpf_be64_to_cpu(ip->dst[1]) };

		return is_mine6(run->port, to) ? XDP_DROP : XDP_PASS;
	}
	return XDP_PASS;
}

SEC("xdp") int weir_alone(struct xdp_md *ctx)
{
	struct run run = { .ctx = ctx };

	return alone(&run);
}

char weir_license[] SEC("license") = "Dual BSD/GPL";

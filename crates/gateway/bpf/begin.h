// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The programs themselves, behind a gateway's `static __always_inline int known(struct run *run)`: what becomes of a packet, or
// OTHER.

SEC("xdp") int weir_fastpath(struct xdp_md *ctx)
{
	__u32 number = bpf_get_smp_processor_id();
	struct run run = { .ctx = ctx, .cpu = bpf_map_lookup_elem(&cpus, &number) };
	int verdict = OTHER, silent = 0;

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
		silent = verdict == OTHER && run.config && is_silent(run.config);
		run.cpu->counts[WEIR_OTHER] += verdict == OTHER && !silent;
		// A barrier as well, for which its result has to be used: what was counted can be seen before this.
		__u64 ended = __sync_fetch_and_add(&run.cpu->ended, 1);

		asm volatile("" : : "r"(ended) : "memory");
	}
	if (verdict != OTHER)
		return verdict;
	if (silent)
		bpf_tail_call(ctx, &beside, 0);
	bpf_tail_call(ctx, &user_space, ctx->ingress_ifindex);
	return XDP_PASS;
}

#include "alone.h"
#include "losses.h"

char weir_license[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What devices do not take of what was redirected to them, by the interface: the redirecting program has ended by then.
#ifndef WEIR_LOSSES_H
#define WEIR_LOSSES_H
#include "path.h"

SHARED(losses, weir_loss, WEIR_PORTS);

// Arguments: the devices the packets came from and go to, how many went, how many were dropped, why.
#define DEVICE_TO 1
#define DROPS 3

SEC("raw_tp/xdp_devmap_xmit") int weir_losses(struct bpf_raw_tracepoint_args *ctx)
{
	__s32 drops = ctx->args[DROPS];
	const void *device = (const void *)ctx->args[DEVICE_TO];
	__u32 zero = 0, ifindex = 0, netns = 0;
	const void *net = 0;
	struct weir_config *settings = bpf_map_lookup_elem(&config, &zero);

	if (LIKELY(drops <= 0) || !settings)
		return 0;
	bpf_probe_read_kernel(&ifindex, sizeof(ifindex), device + settings->ifindex_at);
	bpf_probe_read_kernel(&net, sizeof(net), device + settings->net_at);
	bpf_probe_read_kernel(&netns, sizeof(netns), net + settings->inode_at);
	struct weir_loss *loss = bpf_map_lookup_elem(&losses, &ifindex);

	if (loss && loss->netns == netns)
		__sync_fetch_and_add(&loss->packets, drops);
	return 0;
}

#endif

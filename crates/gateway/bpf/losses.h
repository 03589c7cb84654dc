// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What devices do not take of what was redirected to them, by the interface: the redirecting program has ended by then.
#ifndef WEIR_LOSSES_H
#define WEIR_LOSSES_H
#include "path.h"

SHARED(losses, weir_loss, WEIR_PORTS);

// The count of a device, if it is one of ours.
static __always_inline struct weir_loss *loss_of(const struct weir_config *settings, const void *device)
{
	__u32 ifindex = 0, netns = 0;
	const void *net = 0;

	bpf_probe_read_kernel(&ifindex, sizeof(ifindex), device + settings->ifindex_at);
	bpf_probe_read_kernel(&net, sizeof(net), device + settings->net_at);
	bpf_probe_read_kernel(&netns, sizeof(netns), net + settings->inode_at);
	struct weir_loss *loss = bpf_map_lookup_elem(&losses, &ifindex);

	return loss && netns && loss->netns == netns ? loss : 0;
}

// Counts packets that a device did not take of those that came in by another, if both are ours: others' programs may send to it.
static __always_inline int count_losses(const void *from, const void *to, __u32 packets)
{
	__u32 zero = 0;
	const struct weir_config *settings = bpf_map_lookup_elem(&config, &zero);
	struct weir_loss *loss = settings && loss_of(settings, from) ? loss_of(settings, to) : 0;

	if (loss)
		__sync_fetch_and_add(&loss->packets, packets);
	return 0;
}

// A batch has been given to a device. Arguments: the devices it came from and goes to, how many went, how many were dropped, why.
SEC("raw_tp/xdp_devmap_xmit") int weir_losses(struct bpf_raw_tracepoint_args *ctx)
{
	__s32 drops = ctx->args[3];

	return LIKELY(drops <= 0) ? 0 : count_losses((const void *)ctx->args[0], (const void *)ctx->args[1], drops);
}

// A packet could not even be put into a batch: its device is down, or takes none. Arguments: the device it came from, the program,
// the map's entry, of which the device is the first member, why, the kind of map.
SEC("raw_tp/xdp_redirect_err") int weir_refusals(struct bpf_raw_tracepoint_args *ctx)
{
	const void *device = 0;

	if (ctx->args[4] != BPF_MAP_TYPE_DEVMAP || bpf_probe_read_kernel(&device, sizeof(device), (const void *)ctx->args[2]))
		return 0;
	return count_losses((const void *)ctx->args[0], device, 1);
}

#endif

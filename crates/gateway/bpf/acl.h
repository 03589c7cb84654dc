/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Access lists of the in-kernel paths, byte for byte as crates/gateway/src/fast_path/lists.rs has them, which asserts the same
 * sizes. A gateway says in its record.h how many lists there are (WEIR_LISTS). */
#ifndef WEIR_ACL_H
#define WEIR_ACL_H
#include <linux/types.h>

#define WEIR_TERMS 16       /* rules of an access list */
#define WEIR_NO_COUNTER 0xffffffff

/* A rule of an access list: IPv4 addresses are the lower half's lower half. */
struct weir_term {
	__u64 src[2];
	__u64 src_mask[2];
	__u64 dst[2];
	__u64 dst_mask[2];
	__u32 traits;           /* protocol, DSCP, version, and WEIR_FROM_IT and WEIR_HAS_PORTS */
	__u32 traits_mask;
	__u16 src_lo;
	__u16 src_span;
	__u16 dst_lo;
	__u16 dst_span;
	__u32 counter;
	__u32 deny;
};

/* Bits of traits. */
#define WEIR_FROM_IT (1U << 24) /* from the subscriber */
#define WEIR_HAS_PORTS (1U << 25)

/* First match first; the last one of all matches everything: what the list does otherwise. */
struct weir_list {
	__u32 valid;
	__u32 count;            /* of rules, but for the last one */
	struct weir_term terms[WEIR_TERMS + 1];
};

/* What a rule has matched on a CPU: of CPU 0 first, all rules of each. */
struct weir_hits {
	__u64 packets;
	__u64 bytes;
};

_Static_assert(sizeof(struct weir_term) == 88 && sizeof(struct weir_list) == 1504, "access lists");
_Static_assert(sizeof(struct weir_hits) == 16, "hits");
#endif

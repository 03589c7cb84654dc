/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Translated flows of the in-kernel paths, byte for byte as crates/gateway/src/fast_path/flows.rs has them, which asserts the
 * same sizes. They are copies of mappings that workers have: one that is not here is the worker's to find or to make. */
#ifndef WEIR_NAT_H
#define WEIR_NAT_H
#include <linux/types.h>

#define WEIR_RANGES 16      /* of public addresses */

/* Protocols of translation, as in a flow's keys. */
#define WEIR_NAT_TCP 1ULL
#define WEIR_NAT_UDP 2ULL
#define WEIR_NAT_ICMP 3ULL

/* A mapping. Keys are of an end: network instance, protocol, port (an echo's identifier), IPv4 address; 8, 2, 16, 32 bits. */
struct weir_flow {
	__u32 valid;
	__u32 session;          /* the number by which workers know its session */
	__u64 out_key;          /* the subscriber's own end */
	__u64 in_key;           /* the public end that stands for it */
	__u64 out_ns;           /* when a packet of it went out last, in ns of CLOCK_MONOTONIC; 0: none since its worker looked */
	__u64 in_ns;            /* and when one came in */
	__u64 spare[3];
};

struct weir_range {
	__u32 instance;         /* all ones: free */
	__u32 first;
	__u32 span;             /* addresses beyond the first */
	__u32 spare;
};

/* How addresses are translated. */
struct weir_translation {
	__u32 valid;
	__u32 flow_bits;        /* 2^this buckets of the index of flows; 0: nothing is translated */
	__u64 translated;       /* a bit for each network instance that is */
	__u64 seed;             /* odd: no sender knows which of its flows fall into one bucket */
	struct weir_range ranges[WEIR_RANGES];
};

_Static_assert(sizeof(struct weir_flow) == 64 && sizeof(struct weir_translation) == 280, "translation");
#endif

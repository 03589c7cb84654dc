/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the in-kernel path of the user plane function and its process share beside shared.h, byte for byte: see
 * crates/upf/src/fast/record.rs, which asserts the same sizes and offsets. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H
#include "acl.h"
#include "nat.h"
#include "shared.h"

#define WEIR_ENDS 4         /* tunnel endpoints of a session */
#define WEIR_CELLS 4        /* buckets, and counts, of a session */
#define WEIR_LISTS WEIR_INSTANCES /* access lists: of each network instance one, which permits all where none is configured */
#define WEIR_LAYOUT 1       /* of what the next process reads: a session, and in shared.h weir_cpu, the first four words of weir_config: one more with each change */

/* Reasons to drop a packet. */
#define WEIR_GATE_CLOSED WEIR_OWN_REASON0
#define WEIR_FLOW_RATE WEIR_OWN_REASON1
#define WEIR_SESSION_RATE WEIR_OWN_REASON2
#define WEIR_ACL_DENIED WEIR_OWN_REASON3

/* Bits of weir_rule.flags. */
#define WEIR_CLOSED 1       /* a QER's gate is closed */
#define WEIR_FROM_UE 2      /* the source must be the subscriber's address */
#define WEIR_SESSION0 4     /* the first bucket is the session's aggregate */
#define WEIR_SESSION1 8     /* the second is */

/* Values of weir_rule.encap. */
#define WEIR_PLAIN 0
#define WEIR_GTPU 1
#define WEIR_CONTAINER 2

/* Bits of weir_tunnel.flags. */
#define WEIR_ZERO_SUM 1     /* over IPv6 the UDP checksum is left out (RFC 6935) */

/* A key of the session index that is a TEID. */
#define WEIR_KEY_TEID WEIR_KEY_OWN

struct weir_tally {
	__u64 bytes;
	__u64 trip;             /* a packet with which bytes reach this is the user-space path's */
	__u64 packets;
	__u32 first;            /* time stamps in 2^20 ns of CLOCK_MONOTONIC; 0: none */
	__u32 last;
};

struct weir_quad {
	__u32 remote[WEIR_WAYS];
	__u32 remote_mask[WEIR_WAYS];
	__u32 traits[WEIR_WAYS];
	__u32 traits_mask[WEIR_WAYS];
	__u16 port_lo[WEIR_WAYS];
	__u16 port_span[WEIR_WAYS];
};

struct weir_rule {
	__u32 tunnel;           /* place among the tunnels, with an encapsulation */
	__u32 teid;             /* the far end's */
	__u8 encap;
	__u8 qfi;               /* with the reflective QoS indicator */
	__u8 dscp;              /* WEIR_NONE8: the packet's own */
	__u8 instance;
	__u8 flags;
	__u8 meters[2];         /* place among the session's cells, from 1; 0: none */
	__u8 tallies[2];
	__u8 spare[15];
};

struct weir_direction {
	struct weir_quad quad;
	struct weir_rule rules[WEIR_WAYS];
	__u8 spare[16];
};

struct weir_session {
	__u32 state;
	__u32 ue4;
	__u32 handle;
	__u16 instance;
	__u16 worker;
	__u32 teids[WEIR_ENDS];
	struct weir_direction up;
	struct weir_direction down;
	struct weir_meter meters[WEIR_CELLS];
	struct weir_tally tallies[WEIR_CELLS];
	__u8 spare[32];
};

/* What an IPv6 packet must be for a rule: addresses in two halves, each in host order. */
struct weir_filter6 {
	__u64 remote[2];
	__u64 remote_mask[2];
	__u32 traits;
	__u32 traits_mask;
	__u16 port_lo;
	__u16 port_span;
	__u32 spare;
};

struct weir_direction6 {
	struct weir_filter6 filters[WEIR_WAYS];
	struct weir_rule rules[WEIR_WAYS];
};

/* The IPv6 half of the session of the same number; buckets and counts are that one's. */
struct weir_session6 {
	__u64 prefix;           /* the subscriber's, its upper 64 bits; 0: none */
	__u64 spare[7];
	struct weir_direction6 up;
	struct weir_direction6 down;
};

/* A far end of GTP-U. Over IPv4 a packet touches the first half. */
struct weir_tunnel {
	struct weir_next next;
	__u8 header[20];        /* IPv4, with total length, type of service and checksum 0 */
	__u16 sum;              /* of these, not complemented, in host order; IPv6: of the pseudo header without lengths */
	__u8 version;           /* 4 or 6; 0: there is none */
	__u8 flags;
	__u8 spare[8];
	__u8 header6[40];       /* IPv6, with payload length and traffic class 0 */
	__u8 spare6[24];
};

/* Which functions the gateway has. */
struct weir_plane {
	__u32 counters;         /* rules of access lists that there are counts of; 0: there are no lists */
	__u32 spare;
};

WEIR_ASSERT(sizeof(struct weir_tally) == 32);
WEIR_ASSERT(sizeof(struct weir_quad) == 80 && sizeof(struct weir_rule) == 32);
WEIR_ASSERT(sizeof(struct weir_direction) == 224);
WEIR_ASSERT(__builtin_offsetof(struct weir_direction, rules) == 80);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, up) == 32);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, down) == 256);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, meters) == 480);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, tallies) == 608);
WEIR_ASSERT(sizeof(struct weir_session) == 768);
WEIR_ASSERT(sizeof(struct weir_tunnel) == 128 && __builtin_offsetof(struct weir_tunnel, version) == 54);
WEIR_ASSERT(__builtin_offsetof(struct weir_tunnel, header6) == 64);
WEIR_ASSERT(sizeof(struct weir_filter6) == 48 && sizeof(struct weir_direction6) == 320);
WEIR_ASSERT(sizeof(struct weir_session6) == 704 && __builtin_offsetof(struct weir_session6, up) == 64);
#endif

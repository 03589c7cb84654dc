/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the in-kernel path of the broadband gateway and its process share beside shared.h, byte for byte: see
 * crates/bng/src/fast/record.rs, which asserts the same sizes and offsets. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H
#include "acl.h"
#include "shared.h"

#define WEIR_LISTS 512      /* access lists, by number */
#define WEIR_OWN 16         /* the gateway's own addresses of a family that are in no subscriber's neighbourhood */
#define WEIR_LENGTHS 4      /* lengths of subscribers' IPv6 prefixes */
#define WEIR_LAYOUT 2       /* of a session, and in shared.h weir_cpu and the first four words of weir_config: one more with each change */

/* Reasons to drop a packet. */
#define WEIR_ACL_DENIED WEIR_OWN_REASON0
#define WEIR_SUBSCRIBER_RATE WEIR_OWN_REASON1

/* Bits of weir_session.flags. */
#define WEIR_LEARNT 1       /* its hardware address was learnt */
#define WEIR_SHARED_LINE 2  /* its VLAN pair is shared (N:1): the hardware address tells lines apart */
#define WEIR_METERED_DOWN 4 /* there is a rate towards it */
#define WEIR_METERED_UP 8   /* there is one from it */
#define WEIR_MARKED 16      /* dscp is of its packets */

/* A line's key is weir_session.line; that of lines of a shared VLAN pair has this bit and the hardware address mixed in. */
#define WEIR_KEY_SHARED (1ULL << 61)

/* One direction of a subscriber, in a cache line: its policer, of which `own` is of the upstream one when a packet came last, in
 * ns of CLOCK_MONOTONIC; what passed, IPv4 and IPv6. */
struct weir_lane {
	struct weir_meter meter;
	__u64 packets[2];
	__u64 bytes[2];
};

/* A subscriber: what both directions ask for is in the first cache line. */
struct weir_session {
	__u32 state;
	__u32 ipv4;             /* 0: none */
	__u64 wan;              /* the upper half of its WAN prefix; all ones: none */
	__u64 pd;               /* of its delegated prefix; all ones: none */
	__u32 line;             /* the port, the outer VLAN, the inner one: 8, 12, 12 bits */
	__u16 mtu;
	__u16 worker;
	__u8 to[6];             /* its hardware address */
	__u8 from[6];           /* the gateway's towards it */
	__u16 acl[2];           /* numbers of its access lists; 0: none */
	__u64 dscp;             /* WEIR_MARKED: of its packets by the priority of their tag, 6 bits each */
	__u32 classes;          /* priority of its tags by class selector, 3 bits each; above 24: pd's length */
	__u8 flags;
	__u8 overhead;          /* bytes that are policed and counted beside the IP packet's */
	__u8 instance;
	__u8 tags;              /* how many: 2 bits; their types, 2 bits each: WEIR_TYPES, 3: there is none */
	struct weir_lane down;
	struct weir_lane up;
};

/* Types of tags by number, as they lie in a frame: 0x8100, 0x88a8, 0x9100, none. */
#define WEIR_TYPES 0x00000091a8880081ULL

/* Addresses that packets from subscribers are not forwarded to here. */
struct weir_places {
	__u32 valid;
	__u8 lengths[WEIR_LENGTHS]; /* lengths of subscribers' IPv6 prefixes, 48 to 64; 0: no more */
	__u32 own4_count;
	__u32 own6_count;
	__u32 counters;         /* rules of access lists that there are counts of */
	__u32 spare;
	__u64 near4[1024];      /* a bit for each /16 that a subscriber's address may be in */
	__u64 near6[64];        /* a bit for each hash of 32 bits that a subscriber's prefix may begin with */
	__u64 own4[WEIR_OWN];   /* the instance in the upper half; all ones: free */
	__u64 own6[WEIR_OWN][3];
};

WEIR_ASSERT(sizeof(struct weir_lane) == 64 && sizeof(struct weir_session) == 192);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, to) == 32 && __builtin_offsetof(struct weir_session, dscp) == 48);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, tags) == 63);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, down) == 64);
WEIR_ASSERT(sizeof(struct weir_places) == 9240);
#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the in-kernel path of the broadband gateway and its process share beside shared.h, byte for byte: see
 * crates/bng/src/fast/record.rs, which asserts the same sizes and offsets. */
#ifndef WEIR_RECORD_H
#define WEIR_RECORD_H
#include "shared.h"

#define WEIR_TERMS 16       /* rules of an access list */
#define WEIR_LISTS 512      /* access lists, by number */
#define WEIR_OWN 16         /* the gateway's own addresses of a family that are in no subscriber's neighbourhood */
#define WEIR_LENGTHS 4      /* lengths of subscribers' IPv6 prefixes */
#define WEIR_NO_COUNTER 0xffffffff
#define WEIR_LAYOUT 1       /* of all that is here and in shared.h: one more with each change of it */

/* Reasons to drop a packet. */
#define WEIR_ACL_DENIED WEIR_OWN_REASON0
#define WEIR_SUBSCRIBER_RATE WEIR_OWN_REASON1

/* Bits of weir_session.flags. */
#define WEIR_LEARNT 1       /* its hardware address was learnt */
#define WEIR_SHARED_LINE 2  /* its VLAN pair is shared (N:1): the hardware address tells lines apart */
#define WEIR_METERED_DOWN 4 /* there is a rate towards it */
#define WEIR_METERED_UP 8   /* there is one from it */

/* A line's key: the port, the outer VLAN, the inner VLAN. Lines of a shared VLAN pair: mixed with the hardware address. */
#define WEIR_KEY_LINE (1ULL << 63)

/* What passed in one direction: IPv4, IPv6. */
struct weir_passed {
	__u64 packets[2];
	__u64 bytes[2];
};

/* A subscriber. */
struct weir_session {
	__u32 state;
	__u32 ipv4;             /* 0: none */
	__u32 handle;
	__u16 instance;
	__u16 worker;
	__u64 line;             /* as its key is, but for the mixing */
	__u64 wan;              /* the upper half of its WAN prefix; all ones: none */
	__u64 pd;               /* of its delegated prefix; all ones: none */
	__u64 pd_mask;
	__u16 mtu;
	__u16 acl[2];           /* numbers of its access lists; 0: none */
	__u8 overhead;          /* bytes that are policed and counted beside the IP packet's */
	__u8 flags;
	__u8 port;              /* place among the ports to send by */
	__u8 len;               /* bytes of the link header: 14, 18, 22 */
	__u8 spare[6];
	__u8 link[22];          /* towards it */
	__u8 spare2[2];
	__u8 pcp[8];            /* priority of its tags by class selector, where it stands in a tag */
	__u8 dscp[8];           /* of its packets by the priority of their tag; WEIR_NONE8: their own */
	__u64 last;             /* when a packet came from it, in ns of CLOCK_MONOTONIC */
	__u8 spare3[16];
	struct weir_meter down;
	struct weir_meter up;
	struct weir_passed down_passed;
	struct weir_passed up_passed;
};

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
#define WEIR_FROM_IT (1U << 24)
#define WEIR_HAS_PORTS (1U << 25)

/* First match first; the last one of all matches everything: what the list does otherwise. */
struct weir_list {
	__u32 valid;
	__u32 spare;
	struct weir_term terms[WEIR_TERMS + 1];
};

struct weir_hits {
	__u64 packets;
	__u64 bytes;
};

/* Addresses that packets from subscribers are not forwarded to here. */
struct weir_places {
	__u32 valid;
	__u8 lengths[WEIR_LENGTHS]; /* lengths of subscribers' IPv6 prefixes, 48 to 64; 0: no more */
	__u64 near4[1024];      /* a bit for each /16 that a subscriber's address may be in */
	__u64 near6[64];        /* a bit for each hash of 32 bits that a subscriber's prefix may begin with */
	__u64 own4[WEIR_OWN];   /* the instance in the upper half; all ones: free */
	__u64 own6[WEIR_OWN][3];
};

WEIR_ASSERT(sizeof(struct weir_passed) == 32 && sizeof(struct weir_session) == 256);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, link) == 64);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, last) == 104);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, down) == 128);
WEIR_ASSERT(__builtin_offsetof(struct weir_session, down_passed) == 192);
WEIR_ASSERT(sizeof(struct weir_term) == 88 && sizeof(struct weir_list) == 1504);
WEIR_ASSERT(sizeof(struct weir_hits) == 16 && sizeof(struct weir_places) == 9224);
#endif

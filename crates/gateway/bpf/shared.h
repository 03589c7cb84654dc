/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every gateway's in-kernel path shares with its process, byte for byte: see crates/gateway/src/fast_path/record.rs,
 * which asserts the same sizes and offsets. A gateway's own is in its record.h. Addresses are in host order, link and IP
 * headers as they lie in a packet.
 *
 * An entry that has a `valid` or `state` word is written while that word is 0 and no CPU runs the program (`weir_cpu`):
 * so a program that has read it as 1 reads the rest whole. */
#ifndef WEIR_SHARED_H
#define WEIR_SHARED_H
#include <linux/types.h>

#define WEIR_WAYS 4         /* neighbours of a bucket, and rules of a direction */
#define WEIR_ADDRESSES 8    /* our IPv4 addresses on a port */
#define WEIR_ADDRESSES6 4   /* our IPv6 addresses on a port */
#define WEIR_ROUTES 16      /* IPv4 routes of a network instance, and as many IPv6 ones */
#define WEIR_INSTANCES 16   /* network instances */
#define WEIR_NEIGHBOURS 1024 /* buckets of neighbours on our links, a power of two */
#define WEIR_PORTS 4096     /* interface indexes */
#define WEIR_LOGICAL 256    /* ports on another's interface, behind those */
#define WEIR_KEYS 8         /* entries of a bucket of the session index: a cache line of them */
#define WEIR_CPUS 1024
#define WEIR_MOVED 1024     /* sessions that were handed back and not seen yet, a power of two */
#define WEIR_NONE8 0xff

/* Values of the lowest byte of weir_session.state. */
#define WEIR_USER 0         /* its packets are the user-space path's; the bytes above count those left to it, modulo 2^24 */
#define WEIR_KERNEL 1       /* its packets are taken here */
#define WEIR_MOVING 2       /* handed back by the program; the worker takes it over */
#define WEIR_FOR_FLOW 3     /* likewise, for a packet that translation has to see: it may return soon */
#define WEIR_STATE 0xff
#define WEIR_LEFT 0x100     /* one packet left to the user-space path */

/* Values of weir_port.role. */
#define WEIR_ACCESS 1
#define WEIR_CORE 2
#define WEIR_HYBRID 3       /* frames with the port's own tags are the core's, all others access */

/* Values of weir_route.kind. */
#define WEIR_TO_USER 0
#define WEIR_GATEWAY 1
#define WEIR_ON_LINK 2

/* Key of a session: the kind in the top two bits, 38 bits of its own (the network instance and the address, or what
 * weir_prefix_key makes of an instance and an IPv6 prefix), 24 bits of zero, where an entry of the session index has the
 * session's number. One kind is the gateway's own. Keys that follow each other, as those of address pools and VLAN ranges, share
 * a block: 4 bytes for each, so that a CPU's caches hold the blocks of 256,000 sessions. Others are in the session index. */
#define WEIR_KEY_ADDRESS (1ULL << 62)
#define WEIR_KEY_PREFIX (2ULL << 62)
#define WEIR_KEY_OWN (3ULL << 62)
#define WEIR_NUMBER_BITS 24
#define WEIR_BLOCK_BITS 6   /* of a key: its place in its block */

/* Places of weir_cpu.counts. The gateway names its own reasons to drop a packet. */
enum {
	WEIR_UP_PACKETS, WEIR_UP_BYTES, WEIR_DOWN_PACKETS, WEIR_DOWN_BYTES, WEIR_OWN_REASON0, WEIR_OWN_REASON1,
	WEIR_OWN_REASON2, WEIR_SPOOFED_SOURCE, WEIR_NO_HEADROOM, WEIR_HANDED_BACK, WEIR_OTHER, WEIR_DROPPED_BYTES,
	WEIR_NO_EGRESS, WEIR_SAMPLES, WEIR_SAMPLED_NS, WEIR_OWN_REASON3,
	/* Without the process: answers, packets to our addresses that were dropped, and questions beyond the rate of answers. */
	WEIR_ALONE_ARP, WEIR_ALONE_NEIGHBOUR, WEIR_ALONE_ECHO, WEIR_ALONE_DROPPED, WEIR_ALONE_LIMITED,
	WEIR_COUNTS = 22
};

/* Answers without the process: one in so many ns, and so many at once, as of a worker. */
#define WEIR_ANSWER_NS 100000ULL
#define WEIR_ANSWERS_AT_ONCE 1000
/* The process is silent if no worker has said for so many ns that it lives: it hangs, or is dead. */
#define WEIR_SILENT_NS 5000000000ULL

#define WEIR_SAMPLE 256     /* one of so many packets is timed, a power of two */

/* A bucket as the time at which it is full again, in 2^-8 ns of CLOCK_MONOTONIC: one word, changed by compare-and-swap. */
struct weir_meter {
	__u64 full_at;
	__u64 per_byte;         /* time that a byte takes, in 2^-24 ns */
	__u64 depth;            /* time that the whole bucket takes, in 2^-8 ns */
	__u64 own;              /* the gateway's */
};

/* The next station of a packet. */
struct weir_next {
	__u32 valid;
	__u16 mtu;
	__u8 port;              /* place among the ports to send by */
	__u8 len;               /* bytes of the link header: 14, and 4 for each of up to two tags */
	__u8 link[22];
	__u8 type[2];           /* its last two bytes: what the packet is */
};

struct weir_route {
	__u32 prefix;
	__u32 mask;
	__u32 kind;
	__u32 port;             /* WEIR_ON_LINK: the port whose neighbours are looked up; WEIR_GATEWAY: how many next hops it has,
	                         * each an entry, from the first on */
	struct weir_next next;  /* WEIR_GATEWAY */
};

/* Longest prefix first. */
struct weir_instance {
	__u32 valid;
	__u32 count;
	__u64 seed;             /* spreads flows over next hops */
	struct weir_route routes[WEIR_ROUTES];
};

struct weir_route6 {
	__u64 prefix[2];
	__u64 mask[2];
	__u32 kind;
	__u32 port;
	struct weir_next next;
};

struct weir_instance6 {
	__u32 valid;
	__u32 count;
	__u64 seed;             /* spreads flows over next hops */
	struct weir_route6 routes[WEIR_ROUTES];
};

struct weir_neighbour {
	__u32 address;
	__u32 port;
	__u64 spare[3];
	struct weir_next next;
};

/* Neighbours whose addresses and ports fall into one bucket. */
struct weir_link {
	struct weir_neighbour neighbours[WEIR_WAYS];
};

struct weir_neighbour6 {
	__u64 address[2];
	__u32 port;
	__u32 spare[3];
	struct weir_next next;
};

struct weir_link6 {
	struct weir_neighbour6 neighbours[WEIR_WAYS];
};

/* Tags are words as they lie in a frame, the outer one first; of one that is not there nothing is compared. */
struct weir_port {
	__u32 role;
	__u16 instance;
	__u8 tags;              /* how many its frames carry */
	__u8 any_mac;
	__u8 mac[6];
	__u8 number;            /* its place among the ports */
	__u8 beside;            /* the next port on the same interface: its number and 1; 0: there is none */
	__u32 tag[2];
	__u32 tag_mask[2];
	__u32 v4[WEIR_ADDRESSES];
	__u64 v6[WEIR_ADDRESSES6][2];
};

struct weir_bucket {
	__u64 entries[WEIR_KEYS]; /* 0: free */
};

struct weir_block {
	__u32 sessions[1 << WEIR_BLOCK_BITS]; /* a number and 1; 0: none */
};

struct weir_cpu {
	__u64 started;          /* runs of the program on this CPU, counted at its beginning */
	__u64 ended;            /* and at its end */
	__u64 counts[WEIR_COUNTS];
};

struct weir_moved {
	__u64 head;
	__u64 spare;
	__u32 sessions[WEIR_MOVED];
};

struct weir_config {
	__u32 paused;           /* everything is the user-space path's */
	__u32 key_bits;         /* 2^this buckets of the session index */
	__u64 beat;             /* when a worker said last that it lives, in ns of CLOCK_MONOTONIC */
	__u64 keep;             /* for how many ns behind that packets are taken */
	__u32 layout;           /* WEIR_LAYOUT of the gateway */
	__u32 workers;
	__u32 block_bits;       /* 2^this buckets of the index of blocks */
	__u32 far;              /* a bit for each value of the top three bits of keys that are in the session index */
	__u64 seed;             /* odd: no sender knows which of its keys are equal to others */
	__u16 ifindex_at;       /* where the kernel has the number of a struct net_device, and its struct net */
	__u16 net_at;
	__u32 inode_at;         /* and where that has its inode's number */
	__u64 owner;            /* the process: see crates/gateway/src/fast_path/owner.rs */
};

/* Packets that an interface did not take for sending. */
struct weir_loss {
	__u32 netns;            /* its network namespace, by the inode's number; 0: nothing is counted */
	__u32 spare;
	__u64 packets;
};

static inline __attribute__((always_inline)) __u64 weir_address_key(__u32 instance, __u32 address)
{
	return WEIR_KEY_ADDRESS | ((__u64)instance << 32 | address) << WEIR_NUMBER_BITS;
}

/* `upper`: of the address, of which the prefix is the first `len` bits, up to 64. */
static inline __attribute__((always_inline)) __u64 weir_prefix_key(__u32 instance, __u64 upper, __u32 len)
{
	__u64 unit = upper >> ((64 - len) & 63), of = instance << 8 | len;
	__u64 mixed = ((unit >> WEIR_BLOCK_BITS) + of * 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;

	return WEIR_KEY_PREFIX | (mixed >> 32 << WEIR_BLOCK_BITS | (unit & ((1 << WEIR_BLOCK_BITS) - 1))) << WEIR_NUMBER_BITS;
}

#define WEIR_ASSERT(what) _Static_assert(what, #what)
WEIR_ASSERT(sizeof(struct weir_meter) == 32);
WEIR_ASSERT(sizeof(struct weir_next) == 32);
WEIR_ASSERT(sizeof(struct weir_route) == 48 && sizeof(struct weir_instance) == 784);
WEIR_ASSERT(sizeof(struct weir_neighbour) == 64 && sizeof(struct weir_neighbour6) == 64);
WEIR_ASSERT(sizeof(struct weir_port) == 128 && __builtin_offsetof(struct weir_port, v4) == 32);
WEIR_ASSERT(sizeof(struct weir_route6) == 72 && sizeof(struct weir_instance6) == 1168);
WEIR_ASSERT(sizeof(struct weir_block) == 256);
WEIR_ASSERT(sizeof(struct weir_bucket) == 64 && sizeof(struct weir_cpu) == 192);
WEIR_ASSERT(__builtin_offsetof(struct weir_config, ifindex_at) == 48 && sizeof(struct weir_loss) == 16);
WEIR_ASSERT(sizeof(struct weir_moved) == 4112 && sizeof(struct weir_config) == 64);
#endif

// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Parts of every gateway's in-kernel path: maps, headers, the session index, buckets, routes, sending. A gateway's program
// has its record.h before, with a struct weir_session that begins with `state` and has a `worker`, and begin.h behind.
#ifndef WEIR_PATH_H
#define WEIR_PATH_H
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "shared.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define SHARED(map, kind, entries) \
	struct { \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		__uint(map_flags, BPF_F_MMAPABLE); \
		__uint(max_entries, entries); \
		__type(key, __u32); \
		__type(value, struct kind); \
	} map SEC(".maps")

// Entries that are 1 here are as many as the loader says.
SHARED(config, weir_config, 1);
SHARED(cpus, weir_cpu, WEIR_CPUS);
SHARED(ports, weir_port, WEIR_PORTS + WEIR_LOGICAL);
SHARED(instances, weir_instance, WEIR_INSTANCES);
SHARED(neighbours, weir_link, WEIR_NEIGHBOURS);
SHARED(instances6, weir_instance6, WEIR_INSTANCES);
SHARED(neighbours6, weir_link6, WEIR_NEIGHBOURS);
SHARED(sessions, weir_session, 1);
SHARED(session_index, weir_bucket, 1);
SHARED(block_index, weir_bucket, 1);
SHARED(blocks, weir_block, 1);
SHARED(moved, weir_moved, 1);
SHARED(answers, weir_meter, 3);

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} egress SEC(".maps");

// The programs that packets go on to which are not taken here, by the interface they came in by.
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, WEIR_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} user_space SEC(".maps");

// What is left to a process that hangs goes on to this program.
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} beside SEC(".maps");

// A verdict that is none of the kernel's: on to the user-space path.
#define OTHER -1

struct eth {
	__u8 to[6], from[6];
};

struct ip4 {
	__u8 version, tos;
	__be16 total, id, fragment;
	__u8 ttl, protocol;
	__be16 check;
	__be32 src, dst;
};

struct ip6 {
	__be32 first;
	__be16 len;
	__u8 next, limit;
	__be64 src[2], dst[2];
} __attribute__((packed, aligned(4)));

struct udp {
	__be16 src, dst, len, check;
};

#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_ICMP6 58

#define WEIR_BESIDE 3       /* ports on an interface that are looked at, beside the first one */

// The longest link header: Ethernet with two tags.
#define MOST_LINK 22

// What is known of a user's packet. IPv6 addresses are in two halves.
struct user {
	__u64 src6[2], dst6[2];
	__u32 src, dst;
	__u16 src_port, dst_port, total;
	__u8 protocol, tos, ttl, is6;
};

struct run {
	struct xdp_md *ctx;
	struct weir_cpu *cpu;
	struct weir_port *port;
	struct weir_config *config;
	__u32 tags;             // bytes of the frame's tags
	__u32 counter;          // without the process: where the verdict is counted
	__u64 now;              // when it was admitted, in ns
};

// Protocols beside UDP, TCP and ICMP that the gateway carries here, of which no ports are read.
#ifndef WEIR_CARRIES
#define WEIR_CARRIES(user) 0
#endif

// The frame's length, as a number of which the verifier knows no pointer.
static __always_inline __u32 length_of(const struct xdp_md *ctx)
{
	__u64 length = (__u64)ctx->data_end - ctx->data;

	asm volatile("" : "+r"(length));
	return length;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// The sum of a header of 20 bytes, which is 0xffff where its checksum is right.
static __always_inline __u16 sum20(const struct ip4 *ip)
{
	const __u16 *words = (const void *)ip;
	__u32 sum = 0;
#pragma unroll
	for (int n = 0; n < 10; n++)
		sum += words[n];
	return fold(sum);
}

static __always_inline int read_ports(const __be16 *l4, __u8 icmp, struct user *user)
{
	user->src_port = 0;
	user->dst_port = 0;
	if (user->protocol == PROTO_UDP || user->protocol == PROTO_TCP) {
		user->src_port = bpf_ntohs(l4[0]);
		user->dst_port = bpf_ntohs(l4[1]);
		return 1;
	}
	return user->protocol == icmp || WEIR_CARRIES(user);
}

static __always_inline int read_user4(const struct ip4 *ip, __u32 room, struct user *user)
{
	user->total = bpf_ntohs(ip->total);
	user->protocol = ip->protocol;
	if (ip->version != 0x45 || ip->fragment & bpf_htons(0x3fff) || user->total > room || user->total < 24)
		return 0;
	if (sum20(ip) != 0xffff)
		return 0;
	user->is6 = 0;
	user->tos = ip->tos;
	user->ttl = ip->ttl;
	user->src = bpf_ntohl(ip->src);
	user->dst = bpf_ntohl(ip->dst);
	return read_ports((const void *)(ip + 1), PROTO_ICMP, user);
}

// Extension headers are the user-space path's.
static __always_inline int read_user6(const struct ip6 *ip, __u32 room, struct user *user)
{
	__u32 total = sizeof(*ip) + bpf_ntohs(ip->len);

	if (total > room || total < sizeof(*ip) + 4)
		return 0;
	user->total = total;
	user->protocol = ip->next;
	user->is6 = 1;
	user->tos = bpf_ntohl(ip->first) >> 20;
	user->ttl = ip->limit;
	user->src6[0] = bpf_be64_to_cpu(ip->src[0]);
	user->src6[1] = bpf_be64_to_cpu(ip->src[1]);
	user->dst6[0] = bpf_be64_to_cpu(ip->dst[0]);
	user->dst6[1] = bpf_be64_to_cpu(ip->dst[1]);
	return read_ports((const void *)(ip + 1), PROTO_ICMP6, user);
}

// Reads the user's packet of which the network header is at `at`, with `room` bytes at most.
static __always_inline int read_user(const void *at, const void *end, __u32 room, struct user *user)
{
	if (at + sizeof(struct ip4) + 4 > end)
		return 0;
	if (*(const __u8 *)at >> 4 != 6)
		return read_user4(at, room, user);
	return at + sizeof(struct ip6) + 4 <= end && read_user6(at, room, user);
}

// 1 if it is 0, of which the compiler makes no branch.
static __always_inline __u64 is_zero_plain(__u64 value)
{
	asm volatile("" : "+r"(value));
	return ~(value | -value) >> 63;
}

static __always_inline int is_mine(const struct weir_port *port, __u32 address)
{
	__u64 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_ADDRESSES; n++)
		hits |= is_zero_plain(port->v4[n] ^ address);
	// Places that are free are 0, which no packet is for.
	return hits && address;
}

static __always_inline int is_mine6(const struct weir_port *port, const __u64 *address)
{
	__u64 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_ADDRESSES6; n++)
		hits |= is_zero_plain((port->v6[n][0] ^ address[0]) | (port->v6[n][1] ^ address[1]));
	return hits && (address[0] | address[1]);
}

// The place of the lowest bit that is set of four; none: 4. Without a branch: the verifier would follow each of them through
// all that comes.
static __always_inline __u32 first_of(__u32 hits)
{
	return 0x0102010301020104ULL >> (hits & 15) * 4 & 7;
}

// 1 if it is 0.
static __always_inline __u32 is_zero(__u64 value)
{
	return ~(value | -value) >> 63;
}

// The entry of a bucket that is as `key` above its lowest `below` bits; 0: there is none.
static __always_inline __u64 in_bucket(void *index, __u32 at, __u64 key, const int below)
{
	const struct weir_bucket *bucket = bpf_map_lookup_elem(index, &at);
	__u64 found = 0;

	if (!bucket)
		return 0;
#pragma unroll
	for (int n = 0; n < WEIR_KEYS; n++) {
		__u64 entry = *(const volatile __u64 *)&bucket->entries[n], unlike = (entry ^ key) >> below;

		// All ones where nothing is unlike, without a branch: none of the compiler's either.
		asm volatile("" : "+r"(unlike));
		found |= entry & (__u64)((__s64)(unlike - 1) >> 63);
	}
	return found;
}

// The entry of a key in one of the two buckets of an index that it may be in; 0: there is none.
static __always_inline __u64 in_index(void *index, __u32 bits, __u64 key, const int below)
{
	__u32 shift = 63 - (bits & 31);
	__u64 value = key >> below, found = in_bucket(index, value * 0x9e3779b97f4a7c15ULL >> 1 >> shift, key, below);

	return found ? found : in_bucket(index, value * 0xd6e8feb86659fd93ULL >> 1 >> shift, key, below);
}

// As find, of a key that is in no block: the hash of something.
static __always_inline __u32 find_far(__u64 key)
{
	__u32 zero = 0;
	const struct weir_config *settings = bpf_map_lookup_elem(&config, &zero);

	if (!settings || !(settings->far >> (key >> 61) & 1))
		return 0;
	__u64 entry = in_index(&session_index, settings->key_bits, key, WEIR_NUMBER_BITS);

	return entry ? (entry & ((1U << WEIR_NUMBER_BITS) - 1)) + 1 : 0;
}

// The number, and 1, of the session that a key leads to; 0: to none. It has to be checked: it may be about to change, and keys
// of other prefixes may be equal.
static __always_inline __u32 find(__u64 key)
{
	const int below = WEIR_NUMBER_BITS + WEIR_BLOCK_BITS;
	__u32 zero = 0;
	const struct weir_config *settings = bpf_map_lookup_elem(&config, &zero);

	if (!settings)
		return 0;
	__u64 entry = in_index(&block_index, settings->block_bits, key >> below << below, below);

	if (entry) {
		__u32 at = entry & ((1U << WEIR_NUMBER_BITS) - 1);
		const struct weir_block *block = bpf_map_lookup_elem(&blocks, &at);
		__u32 place = key >> WEIR_NUMBER_BITS & ((1 << WEIR_BLOCK_BITS) - 1);
		__u32 session = block ? *(const volatile __u32 *)&block->sessions[place] : 0;

		if (session)
			return session;
	}
	return find_far(key);
}

// Loads a line of a record that is needed later, so that the packet waits for all of its lines at once and not for one after the
// other: no load passes a locked instruction.
static __always_inline void request(const void *at)
{
	(void)*(const volatile __u8 *)at;
}

// Whether a worker lives that reports what is counted, or did a while ago; `now` is the kernel's time.
static __always_inline int is_attended(const struct run *run, __u64 now)
{
	return now - run->config->beat <= run->config->keep || now <= run->config->beat;
}

// Whether the process, which was to say that it lives, has not for long: what is left to it would wait in vain.
static __always_inline int is_silent(const struct weir_config *settings)
{
	if (settings->keep == ~0ULL)
		return 0;
	__u64 beat = settings->beat, now = bpf_ktime_get_ns();

	return now > beat && now - beat > WEIR_SILENT_NS;
}

// From here on the session's packets are the user-space path's, until its worker gives it back; `as`: WEIR_MOVING or
// WEIR_FOR_FLOW.
static __always_inline int hand_back_as(struct run *run, struct weir_session *session, __u32 number, const __u32 as)
{
	// Nobody would take the session, nor send what would be behind this packet.
	if (run->config && is_silent(run->config))
		return OTHER;
	__u32 old = __sync_val_compare_and_swap(&session->state, WEIR_KERNEL, as), seen = old;

	// Packets of a moment ago may have been counted in it.
	if (old != WEIR_KERNEL && (old & WEIR_STATE) == WEIR_KERNEL)
		seen = __sync_val_compare_and_swap(&session->state, old, as);
	if (seen == old && (old & WEIR_STATE) == WEIR_KERNEL) {
		__u32 worker = session->worker;
		struct weir_moved *list = bpf_map_lookup_elem(&moved, &worker);

		if (list) {
			__u32 at = __sync_fetch_and_add(&list->head, 1) & (WEIR_MOVED - 1);

			*(volatile __u32 *)&list->sessions[at] = number + 1;
		}
		run->cpu->counts[WEIR_HANDED_BACK]++;
	}
	return OTHER;
}

static __always_inline int hand_back(struct run *run, struct weir_session *session, __u32 number)
{
	return hand_back_as(run, session, number, WEIR_MOVING);
}

// Whether a session's packet is taken here. One that is not is counted in the session's state, so that the worker gives
// the session back only behind the last packet that was left to it.
static __always_inline int is_taken(struct weir_session *session)
{
	if (LIKELY((*(volatile __u32 *)&session->state & WEIR_STATE) == WEIR_KERNEL))
		return 1;
	return (__sync_fetch_and_add(&session->state, WEIR_LEFT) & WEIR_STATE) == WEIR_KERNEL;
}

// Takes a packet's time from a bucket (GCRA): 1, or 0 if there is too little, or -1 if other CPUs took it again and again.
static __always_inline int take(struct weir_meter *meter, __u64 now, __u64 cost)
{
	__u64 old = *(volatile __u64 *)&meter->full_at;

#pragma unroll
	for (int n = 0; n < 4; n++) {
		__u64 from = old > now ? old : now;

		if (from - now + cost > meter->depth)
			return 0;
		__u64 seen = __sync_val_compare_and_swap(&meter->full_at, old, from + cost);

		if (seen == old)
			return 1;
		old = seen;
	}
	return -1;
}

// Whether one more answer may be given now; it is counted as `as`, and a question that has none as beyond the rate.
static __always_inline int may_answer(struct run *run, const __u32 as)
{
	// One for each kind: a flood of one does not take the others' answers.
	__u32 kind = as - WEIR_ALONE_ARP;
	struct weir_meter *bucket = bpf_map_lookup_elem(&answers, &kind);

	run->counter = WEIR_ALONE_LIMITED;
	if (!bucket)
		return 0;
	if (!bucket->depth)
		bucket->depth = WEIR_ANSWER_NS * WEIR_ANSWERS_AT_ONCE;
	if (take(bucket, bpf_ktime_get_ns(), WEIR_ANSWER_NS) <= 0)
		return 0;
	run->counter = as;
	return 1;
}

static __always_inline __u64 cost_of(const struct weir_meter *meter, __u16 bytes)
{
	return bytes * meter->per_byte >> 16;
}

static __always_inline int drop(struct run *run, int reason, __u16 bytes)
{
	run->cpu->counts[reason]++;
	run->cpu->counts[WEIR_DROPPED_BYTES] += bytes;
	return XDP_DROP;
}

// Of eight routes from `at` on, the first that a destination matches; none: `found`.
static __always_inline __u64 first_route(const struct weir_instance *table, const int at, __u32 to, __u64 found)
{
#pragma unroll
	for (int n = at + 7; n >= at; n--) {
		__u64 hit = -(__u64)is_zero((to & table->routes[n].mask) ^ table->routes[n].prefix);

		found ^= (found ^ n) & hit;
	}
	return found;
}

// The place of a flow's next hop among those of its route, as the forwarding tables spread flows: by their addresses.
static __always_inline __u32 part(__u64 value, __u32 count)
{
	if (count < 2)
		return 0;
	value = (value ^ value >> 33) * 0xff51afd7ed558ccdULL;
	value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return (value >> 32) * count >> 32;
}

static __always_inline __u64 folded(const __u64 *address)
{
	return address[0] ^ (address[1] << 32 | address[1] >> 32);
}

// The next station of a packet that goes by its own destination; none: to be found out by the user-space path.
static __always_inline struct weir_next *route(__u32 instance, __u32 from, __u32 to)
{
	struct weir_instance *table = bpf_map_lookup_elem(&instances, &instance);
	__u64 found = WEIR_ROUTES;

	if (!table || !table->valid)
		return 0;
	// From the last one, of the shortest prefix, to the first. Free places match nothing.
	if (table->count > 8)
		found = first_route(table, 8, to, found);
	found = first_route(table, 0, to, found);
	if (found >= table->count)
		return 0;
	struct weir_route *entry = &table->routes[found & (WEIR_ROUTES - 1)];

	if (entry->kind == WEIR_GATEWAY) {
		found += part(((__u64)from << 32 | to) ^ table->seed, entry->port);
		entry = &table->routes[found & (WEIR_ROUTES - 1)];
		return entry->next.valid ? &entry->next : 0;
	}
	if (entry->kind != WEIR_ON_LINK)
		return 0;
	__u32 at = (to ^ entry->port << 24) * 0x9e3779b1U >> 20 & (WEIR_NEIGHBOURS - 1);
	struct weir_link *link = bpf_map_lookup_elem(&neighbours, &at);
	__u32 hits = 0;

	if (!link)
		return 0;
#pragma unroll
	for (int n = 0; n < WEIR_WAYS; n++) {
		struct weir_neighbour *neighbour = &link->neighbours[n];

		hits |= is_zero((neighbour->address ^ to) | (neighbour->port ^ entry->port) |
				(neighbour->next.valid ^ 1)) << n;
	}
	return hits ? &link->neighbours[first_of(hits) & (WEIR_WAYS - 1)].next : 0;
}

static __always_inline struct weir_next *route6(__u32 instance, const __u64 *from, const __u64 *to)
{
	struct weir_instance6 *table = bpf_map_lookup_elem(&instances6, &instance);
	__u64 found = WEIR_ROUTES;

	if (!table || !table->valid)
		return 0;
#pragma unroll
	for (int n = WEIR_ROUTES - 1; n >= 0; n--) {
		const struct weir_route6 *route = &table->routes[n];
		__u64 hit = -(__u64)is_zero(((to[0] & route->mask[0]) ^ route->prefix[0]) |
					    ((to[1] & route->mask[1]) ^ route->prefix[1]));

		found ^= (found ^ n) & hit;
	}
	if (found >= table->count)
		return 0;
	struct weir_route6 *entry = &table->routes[found & (WEIR_ROUTES - 1)];

	if (entry->kind == WEIR_GATEWAY) {
		found += part(folded(from) * 0xd6e8feb86659fd93ULL ^ folded(to) ^ table->seed, entry->port);
		entry = &table->routes[found & (WEIR_ROUTES - 1)];
		return entry->next.valid ? &entry->next : 0;
	}
	if (entry->kind != WEIR_ON_LINK)
		return 0;
	__u32 at = (to[0] ^ to[1] ^ (__u64)entry->port << 24) * 0x9e3779b97f4a7c15ULL >> 54;
	struct weir_link6 *link = bpf_map_lookup_elem(&neighbours6, &at);
	__u32 hits = 0;

	if (!link)
		return 0;
#pragma unroll
	for (int n = 0; n < WEIR_WAYS; n++) {
		struct weir_neighbour6 *neighbour = &link->neighbours[n];

		hits |= is_zero((neighbour->address[0] ^ to[0]) | (neighbour->address[1] ^ to[1]) |
				(neighbour->port ^ entry->port) | (neighbour->next.valid ^ 1)) << n;
	}
	return hits ? &link->neighbours[first_of(hits) & (WEIR_WAYS - 1)].next : 0;
}

// Takes one from the TTL of a packet, which is not zero, and mends the checksum: TTL, protocol and checksum as one word.
static __always_inline void decrement_ttl(void *packet, __u8 is6)
{
	if (is6) {
		((struct ip6 *)packet)->limit--;
	} else {
		__u32 *word = (void *)&((struct ip4 *)packet)->ttl;

		*word = *word + ((*word >= 0xfffe0000 ? 2U : 1U) << 16) - 1;
	}
}

// Sets the DSCP of a packet and mends the checksum (RFC 1624, equation 3).
static __always_inline void mark(void *packet, __u8 is6, __u8 dscp)
{
	__u16 old = bpf_ntohs(*(__be16 *)packet), new = (old & 0xff03) | dscp << 2;

	if (is6) {
		*(__be16 *)packet = bpf_htons((old & 0xf03f) | dscp << 6);
	} else {
		struct ip4 *ip = packet;

		*(__be16 *)packet = bpf_htons(new);
		ip->check = bpf_htons(~fold((__u16)~bpf_ntohs(ip->check) + (__u16)~old + new));
	}
}

// How many bytes of tags a next station's link header has: up to 8.
static __always_inline __u32 tags_of(const struct weir_next *next)
{
	__u32 tags = (next->len - 14) & 12;

	// A number of which the verifier knows both ends.
	asm volatile("" : "+r"(tags));
	return tags;
}

// Where the last 14 bytes of a link header begin, before which there are tags. The compiler is kept from moving the sum: the
// verifier takes no negative offset.
static __always_inline void *behind_tags(void *data, __u32 tags)
{
	void *behind = data + tags;

	asm volatile("" : "+r"(behind));
	return behind;
}

// Puts the link header, with so many bytes of tags, of which the last 14 bytes are at `behind`.
static __always_inline void put_link(void *to, void *behind, const struct weir_next *next, __u32 tags)
{
	const __u32 *words = (const void *)next->link;

	*(__u64 *)to = *(const __u64 *)words;
	((__u32 *)to)[2] = words[2];
	if (tags > 0)
		((__u32 *)to)[3] = words[3];
	if (tags > 4)
		((__u32 *)to)[4] = words[4];
	*(__be16 *)(behind + 12) = *(const __be16 *)next->type;
}

// Cuts what stands behind the packet's end: padding of the link.
static __always_inline int cut(struct xdp_md *ctx, __u32 excess)
{
	return excess ? bpf_xdp_adjust_tail(ctx, -(int)excess) : 0;
}

// The frame is so long from now on: it grows and shrinks at its front, and is written anew. 0: there is no room.
static __always_inline int resize(struct xdp_md *ctx, __u32 wanted)
{
	int excess = (int)length_of(ctx) - (int)wanted;

	return !excess || !bpf_xdp_adjust_head(ctx, excess);
}

// Sends a packet by a port, and counts it at `packets` and the place behind.
static __always_inline int send(struct run *run, __u8 port, int packets, __u16 bytes)
{
	if (bpf_redirect_map(&egress, port, XDP_DROP) != XDP_REDIRECT)
		return drop(run, WEIR_NO_EGRESS, bytes);
	run->cpu->counts[packets]++;
	run->cpu->counts[packets + 1] += bytes;
	return XDP_REDIRECT;
}

static __always_inline int is_link_local6(const __u64 *address)
{
	return address[0] >> 54 == 0xfe80 >> 6;
}

// Whether no host can have sent from that address: this network, loopback, link-local, multicast, reserved.
static __always_inline int is_martian(__u32 source)
{
	__u32 first = source >> 24;

	return first == 0 || first == 127 || first >= 224 || source >> 16 == 0xa9fe;
}

// As is_martian, of IPv6: unspecified, loopback, link-local, multicast.
static __always_inline int is_martian6(const __u64 *source)
{
	return (!source[0] && source[1] <= 1) || is_link_local6(source) || source[0] >> 56 == 0xff;
}

// What stands behind the tags of the port, if a frame has those: its network header's type, or that of one more tag.
static __always_inline __be16 type_on_port(struct run *run, const void *data, const void *end)
{
	const struct weir_port *port = run->port;
	const __u32 *words = data + 12;

	if (((words[0] ^ port->tag[0]) & port->tag_mask[0]) | ((words[1] ^ port->tag[1]) & port->tag_mask[1]))
		return 0;
	run->tags = (port->tags & 3) * 4;
	const void *behind = behind_tags((void *)data, run->tags);

	return behind + 14 > end ? 0 : *(const __be16 *)(behind + 12);
}

static __always_inline int announces_tag(__be16 type)
{
	return type == bpf_htons(0x8100) || type == bpf_htons(0x88a8) || type == bpf_htons(0x9100);
}

// Whether a frame has the port's tags, as many and no others; its network header's type. Of several ports on an interface, the one
// that it has the tags of is run->port from here on.
static __always_inline __be16 type_behind_tags(struct run *run, const void *data, const void *end)
{
	// No packet is shorter, nor a header with two tags.
	if (data + 38 > end)
		return 0;
	__be16 type = type_on_port(run, data, end);

	if (LIKELY(type == bpf_htons(0x0800) || type == bpf_htons(0x86dd)))
		return type;
#pragma unroll
	for (int n = 0; n < WEIR_BESIDE; n++) {
		__u32 at = run->port->beside;

		if ((type && !announces_tag(type)) || !at)
			break;
		at += WEIR_PORTS - 1;
		struct weir_port *port = bpf_map_lookup_elem(&ports, &at);

		if (!port)
			return 0;
		run->port = port;
		type = type_on_port(run, data, end);
	}
	return type;
}

#endif

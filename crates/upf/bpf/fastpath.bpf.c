// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The in-kernel path of known sessions: GTP-U out of the tunnel and into it, IPv4 and IPv6 users over IPv4 transport.
//
// Everything is decided before anything is written: what is not of the usual kind, or does not do with what stands in
// the maps, goes on to the user-space path as it came. A packet of a known session that does so takes its session with it
// (`hand_back`): packets behind it must not overtake it. Built by scripts/bpf.
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "record.h"

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
SHARED(ports, weir_port, WEIR_PORTS);
SHARED(instances, weir_instance, WEIR_INSTANCES);
SHARED(neighbours, weir_link, WEIR_NEIGHBOURS);
SHARED(instances6, weir_instance6, WEIR_INSTANCES);
SHARED(neighbours6, weir_link6, WEIR_NEIGHBOURS);
SHARED(sessions, weir_session, 1);
SHARED(sessions6, weir_session6, 1);
SHARED(session_index, weir_bucket, 1);
SHARED(tunnels, weir_tunnel, 1);
SHARED(moved, weir_moved, 1);

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

struct gtpu {
	__u8 flags, type;
	__be16 len;
	__be32 teid;
};

struct container {
	__be16 sequence;
	__u8 npdu, type, len, pdu, qfi, next;
};

#define PROTO_ICMP 1
#define PROTO_TCP 6
#define PROTO_UDP 17
#define PROTO_ICMP6 58
#define PORT_GTPU 2152
#define STATE_PORTS 1

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
};

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
	return user->protocol == icmp;
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

static __always_inline int is_mine(const struct weir_port *port, __u32 address)
{
	__u32 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_ADDRESSES; n++)
		hits |= port->v4[n] == address;
	// Places that are free are 0, which no packet is for.
	return hits && address;
}

static __always_inline int is_mine6(const struct weir_port *port, const __u64 *address)
{
	__u32 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_ADDRESSES6; n++)
		hits |= port->v6[n][0] == address[0] && port->v6[n][1] == address[1];
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

static __always_inline struct weir_key *in_bucket(__u32 at, __u64 key)
{
	struct weir_bucket *bucket = bpf_map_lookup_elem(&session_index, &at);
	__u32 hits = 0;

	if (!bucket)
		return 0;
#pragma unroll
	for (int n = 0; n < WEIR_KEYS; n++)
		hits |= is_zero(bucket->keys[n].key ^ key) << n;
	return hits ? &bucket->keys[first_of(hits) & (WEIR_KEYS - 1)] : 0;
}

// The entry of a key, in one of the two buckets it may be in. What it leads to has to be checked: it may be about to
// change.
static __always_inline struct weir_key *find(__u64 key)
{
	__u32 zero = 0;
	struct weir_config *config_ = bpf_map_lookup_elem(&config, &zero);

	if (!config_)
		return 0;
	__u32 bits = config_->key_bits & 31;
	__u64 hash = key * 0x9e3779b97f4a7c15ULL;
	struct weir_key *found = in_bucket(hash >> 1 >> (63 - bits), key);

	return found ? found : in_bucket((__u32)hash >> 1 >> (31 - bits), key);
}

// The rule of a packet: the first that matches, or WEIR_WAYS.
static __always_inline __u32 match(const struct weir_quad *quad, __u32 remote, __u16 port, __u32 traits, __u32 mask)
{
	__u32 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_WAYS; n++) {
		__u32 unlike = ((remote ^ quad->remote[n]) & quad->remote_mask[n]) |
			       ((traits ^ quad->traits[n]) & quad->traits_mask[n] & mask);
		__u64 above = (__u16)(port - quad->port_lo[n]);

		hits |= (is_zero(unlike) & ~((quad->port_span[n] - above) >> 63)) << n;
	}
	return first_of(hits);
}

// The same of an IPv6 packet.
static __always_inline __u32 match6(const struct weir_filter6 *filters, const __u64 *remote, __u16 port, __u32 traits,
				    __u32 mask)
{
	__u32 hits = 0;

#pragma unroll
	for (int n = 0; n < WEIR_WAYS; n++) {
		const struct weir_filter6 *filter = &filters[n];
		__u64 unlike = ((remote[0] ^ filter->remote[0]) & filter->remote_mask[0]) |
			       ((remote[1] ^ filter->remote[1]) & filter->remote_mask[1]) |
			       ((traits ^ filter->traits) & filter->traits_mask & mask);
		__u64 above = (__u16)(port - filter->port_lo);

		hits |= (is_zero(unlike) & ~((filter->port_span - above) >> 63)) << n;
	}
	return first_of(hits);
}

static __always_inline __u32 traits_of(const struct user *user, __u32 end, __u8 qfi)
{
	__u8 state = user->protocol == PROTO_UDP || user->protocol == PROTO_TCP ? STATE_PORTS : 0;

	return user->protocol | (__u32)user->tos << 8 | (__u32)(state | end << 4) << 16 | (__u32)qfi << 24;
}

// From here on the session's packets are the user-space path's, until its worker gives it back.
static __always_inline int hand_back(struct run *run, struct weir_session *session, __u32 number)
{
	__u32 old = __sync_val_compare_and_swap(&session->state, WEIR_KERNEL, WEIR_MOVING), seen = old;

	// Packets of a moment ago may have been counted in it.
	if (old != WEIR_KERNEL && (old & WEIR_STATE) == WEIR_KERNEL)
		seen = __sync_val_compare_and_swap(&session->state, old, WEIR_MOVING);
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

static __always_inline __u64 cost_of(const struct weir_meter *meter, __u16 bytes)
{
	return bytes * meter->per_byte >> 16;
}

static __always_inline struct weir_meter *meter_at(struct weir_session *session, __u8 place)
{
	return &session->meters[(place - 1) & (WEIR_CELLS - 1)];
}

static __always_inline struct weir_tally *tally_at(struct weir_session *session, __u8 place)
{
	return &session->tallies[(place - 1) & (WEIR_CELLS - 1)];
}

// Whether the count comes to where the URR's bounds are to be looked at.
static __always_inline int trips(struct weir_session *session, __u8 place, __u16 bytes)
{
	struct weir_tally *tally = tally_at(session, place);

	return place && *(volatile __u64 *)&tally->bytes + bytes >= tally->trip;
}

// Counts the octets; 0, and nothing counted, if they come to the bound.
static __always_inline int count(struct weir_session *session, __u8 place, __u16 bytes)
{
	struct weir_tally *tally = tally_at(session, place);

	if (!place)
		return 1;
	if (__sync_fetch_and_add(&tally->bytes, bytes) + bytes >= tally->trip) {
		__sync_fetch_and_add(&tally->bytes, -(__u64)bytes);
		return 0;
	}
	return 1;
}

static __always_inline void stamp(struct weir_session *session, __u8 place, __u64 now)
{
	struct weir_tally *tally = tally_at(session, place);
	__u32 time = now >> 28;

	if (!place)
		return;
	__sync_fetch_and_add(&tally->packets, 1);
	time = time ? time : 1;
	if (!tally->first)
		tally->first = time;
	if (tally->last != time)
		tally->last = time;
}

static __always_inline int drop(struct run *run, int reason, __u16 bytes)
{
	run->cpu->counts[reason]++;
	run->cpu->counts[WEIR_DROPPED_BYTES] += bytes;
	return XDP_DROP;
}

// Gates, rates and usage of a packet that nothing else stands against: 0 if it goes on, else the verdict.
static __always_inline int admit(struct run *run, struct weir_session *session, __u32 number,
				 const struct weir_rule *rule, __u16 bytes)
{
	if (trips(session, rule->tallies[0], bytes) || trips(session, rule->tallies[1], bytes))
		return hand_back(run, session, number);
	__u64 now = bpf_ktime_get_ns();

	// Without anybody who reports what is counted, for a while only.
	if (now - run->config->beat > run->config->keep && now > run->config->beat)
		return OTHER;
	if (rule->flags & WEIR_CLOSED)
		return drop(run, WEIR_GATE_CLOSED, bytes);
	now <<= 8;
	struct weir_meter *first = meter_at(session, rule->meters[0]), *second = meter_at(session, rule->meters[1]);
	__u64 cost = cost_of(first, bytes);

	if (rule->meters[0]) {
		int taken = take(first, now, cost);

		if (taken < 0)
			return hand_back(run, session, number);
		if (!taken)
			return drop(run, rule->flags & WEIR_SESSION0 ? WEIR_SESSION_RATE : WEIR_FLOW_RATE, bytes);
	}
	if (rule->meters[1]) {
		int taken = take(second, now, cost_of(second, bytes));

		if (taken <= 0 && rule->meters[0])
			__sync_fetch_and_add(&first->full_at, -cost);
		if (taken < 0)
			return hand_back(run, session, number);
		if (!taken)
			return drop(run, rule->flags & WEIR_SESSION1 ? WEIR_SESSION_RATE : WEIR_FLOW_RATE, bytes);
	}
	int ok = count(session, rule->tallies[0], bytes);

	if (ok && !count(session, rule->tallies[1], bytes)) {
		if (rule->tallies[0])
			__sync_fetch_and_add(&tally_at(session, rule->tallies[0])->bytes, -(__u64)bytes);
		ok = 0;
	}
	if (!ok) {
		if (rule->meters[0])
			__sync_fetch_and_add(&first->full_at, -cost);
		if (rule->meters[1])
			__sync_fetch_and_add(&second->full_at, -cost_of(second, bytes));
		return hand_back(run, session, number);
	}
	stamp(session, rule->tallies[0], now);
	stamp(session, rule->tallies[1], now);
	return 0;
}

// The next station of a packet that goes by its own destination; none: to be found out by the user-space path.
static __always_inline struct weir_next *route(__u32 instance, __u32 to)
{
	struct weir_instance *table = bpf_map_lookup_elem(&instances, &instance);
	__u64 found = WEIR_ROUTES;

	if (!table || !table->valid)
		return 0;
	// From the last one, of the shortest prefix, to the first. Free places match nothing.
#pragma unroll
	for (int n = WEIR_ROUTES - 1; n >= 0; n--) {
		__u64 hit = -(__u64)is_zero((to & table->routes[n].mask) ^ table->routes[n].prefix);

		found ^= (found ^ n) & hit;
	}
	if (found >= table->count)
		return 0;
	struct weir_route *entry = &table->routes[found & (WEIR_ROUTES - 1)];

	if (entry->kind == WEIR_GATEWAY)
		return entry->next.valid ? &entry->next : 0;
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

static __always_inline struct weir_next *route6(__u32 instance, const __u64 *to)
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

	if (entry->kind == WEIR_GATEWAY)
		return entry->next.valid ? &entry->next : 0;
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

static __always_inline int send(struct run *run, const struct weir_next *next, int packets, __u16 bytes)
{
	if (bpf_redirect_map(&egress, next->port, XDP_DROP) != XDP_REDIRECT)
		return drop(run, WEIR_NO_EGRESS, bytes);
	run->cpu->counts[packets]++;
	run->cpu->counts[packets + 1] += bytes;
	return XDP_REDIRECT;
}

// A rule that applies: with it, where its packet goes next.
struct found {
	struct weir_rule *rule;
	struct weir_next *next;
};

// What becomes of an uplink packet of a session: `found`, and 0; or the verdict.
static __always_inline int up4(struct run *run, struct weir_session *session, __u32 number, const struct user *user,
			       __u32 traits, struct found *found)
{
	__u32 which = match(&session->up.quad, user->dst, user->dst_port, traits, ~0U);

	if (which >= WEIR_WAYS)
		return hand_back(run, session, number);
	struct weir_rule *rule = &session->up.rules[which & (WEIR_WAYS - 1)];

	if (rule->flags & WEIR_FROM_UE) {
		if (user->src != session->ue4)
			return drop(run, WEIR_SPOOFED_SOURCE, user->total);
		if (user->dst_port == PORT_GTPU && user->protocol == PROTO_UDP && is_mine(run->port, user->dst))
			return OTHER;
	}
	found->rule = rule;
	found->next = route(rule->instance, user->dst);
	return 0;
}

static __always_inline int is_link_local6(const __u64 *address)
{
	return address[0] >> 54 == 0xfe80 >> 6;
}

static __always_inline int up6(struct run *run, struct weir_session *session, __u32 number, const struct user *user,
			       __u32 traits, struct found *found)
{
	struct weir_session6 *half = bpf_map_lookup_elem(&sessions6, &number);

	if (!half || !half->prefix)
		return hand_back(run, session, number);
	__u32 which = match6(half->up.filters, user->dst6, user->dst_port, traits, ~0U);

	if (which >= WEIR_WAYS)
		return hand_back(run, session, number);
	struct weir_rule *rule = &half->up.rules[which & (WEIR_WAYS - 1)];

	if (rule->flags & WEIR_FROM_UE) {
		// Router solicitations and what else hosts say on their link: nothing the session has to come back for.
		if (is_link_local6(user->src6) || !(user->src6[0] | user->src6[1]))
			return OTHER;
		if (user->src6[0] != half->prefix)
			return drop(run, WEIR_SPOOFED_SOURCE, user->total);
		if (user->dst_port == PORT_GTPU && user->protocol == PROTO_UDP && is_mine6(run->port, user->dst6))
			return OTHER;
	}
	found->rule = rule;
	found->next = route6(rule->instance, user->dst6);
	return 0;
}

// A packet out of its tunnel: the user's packet is `at` bytes from the frame's start, of which so many are the datagram's.
static __always_inline int uplink_user(struct run *run, __u32 at, __u32 room, __u32 teid, __u8 qfi)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 length = length_of(ctx);
	struct found found;
	struct user user;

	if (!read_user(data + at, end, room, &user))
		return OTHER;
	struct weir_key *key = find(WEIR_KEY_TEID | teid);

	if (!key)
		return OTHER;
	__u32 number = key->session, endpoint = key->end & (WEIR_ENDS - 1);
	struct weir_session *session = bpf_map_lookup_elem(&sessions, &number);

	if (!session || !is_taken(session) || session->teids[endpoint] != teid)
		return OTHER;
	__u32 traits = traits_of(&user, endpoint, qfi);
	int verdict = user.is6 ? up6(run, session, number, &user, traits, &found) :
				 up4(run, session, number, &user, traits, &found);

	if (verdict)
		return verdict;
	struct weir_next *next = found.next;

	if (!next || user.total > next->mtu || user.ttl < 2)
		return hand_back(run, session, number);
	__u32 tags = tags_of(next);

	verdict = admit(run, session, number, found.rule, user.total);
	if (verdict)
		return verdict;
	__u8 dscp = found.rule->dscp;

	if (cut(ctx, length - at - user.total) || bpf_xdp_adjust_head(ctx, at - 14 - tags))
		return drop(run, WEIR_NO_HEADROOM, user.total);
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, tags), *packet = behind + 14;

	if (data + MOST_LINK > end || packet + sizeof(struct ip4) > end)
		return drop(run, WEIR_NO_HEADROOM, user.total);
	if (dscp != WEIR_NONE8)
		mark(packet, user.is6, dscp);
	decrement_ttl(packet, user.is6);
	put_link(data, behind, next, tags);
	return send(run, next, WEIR_UP_PACKETS, user.total);
}

static __always_inline int uplink(struct run *run)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	__u32 at = 14 + run->tags;
	struct ip4 *ip = data + at;
	struct udp *udp = (void *)(ip + 1);
	struct gtpu *gtpu = (void *)(udp + 1);
	struct container *container = (void *)(gtpu + 1);

	if ((void *)(container + 1) > end)
		return OTHER;
	// Options, fragments and marks of congestion on the transport are the user-space path's.
	if (ip->version != 0x45 || ip->protocol != PROTO_UDP || ip->fragment & bpf_htons(0x3fff) || ip->tos & 1)
		return OTHER;
	if (udp->dst != bpf_htons(PORT_GTPU) || !is_mine(run->port, bpf_ntohl(ip->dst)) || sum20(ip) != 0xffff)
		return OTHER;
	__u32 total = bpf_ntohs(ip->total), datagram = bpf_ntohs(udp->len), message = bpf_ntohs(gtpu->len);

	if (datagram < 16 || 20 + datagram > total || at + total > length_of(run->ctx) || 16 + message > datagram)
		return OTHER;
	__u32 header = 36, qfi = WEIR_NONE8;

	if (*(__be16 *)gtpu != bpf_htons(0x30ff)) {
		// E alone; one extension: a PDU session container of four bytes (TS 38.415).
		if (*(__be16 *)gtpu != bpf_htons(0x34ff) || container->type != 0x85 || container->len != 1 ||
		    container->pdu & 0xe0 || container->next || message < 8)
			return OTHER;
		header = 44;
		qfi = container->qfi & 0x3f;
	}
	return uplink_user(run, at + header, datagram + 20 - header, bpf_ntohl(gtpu->teid), qfi);
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

// Headers of the tunnel before a user's packet, for which there is room.
static __always_inline void put_tunnel(struct ip4 *ip, const struct weir_tunnel *tunnel, const struct weir_rule *rule,
				       __u16 outer, __u8 tos, int is_container)
{
	struct udp *udp = (void *)(ip + 1);
	struct gtpu *gtpu = (void *)(udp + 1);
	struct container *container = (void *)(gtpu + 1);

	const __u32 *header = (const void *)tunnel->header;

#pragma unroll
	for (int n = 0; n < 5; n++)
		((__u32 *)ip)[n] = header[n];
	ip->tos = tos;
	ip->total = bpf_htons(outer);
	ip->check = bpf_htons(~fold((__u32)tunnel->sum + outer + tos));
	udp->src = udp->dst = bpf_htons(PORT_GTPU);
	udp->len = bpf_htons(outer - 20);
	udp->check = 0;
	gtpu->flags = is_container ? 0x34 : 0x30;
	gtpu->type = 0xff;
	gtpu->len = bpf_htons(outer - 36);
	gtpu->teid = bpf_htonl(rule->teid);
	if (is_container) {
		*(__be32 *)container = bpf_htonl(0x85);
		*(__be32 *)&container->len = bpf_htonl(0x01000000 | (__u32)rule->qfi << 8);
	}
}

static __always_inline int into_tunnel(struct run *run, const struct user *user, const struct weir_tunnel *tunnel,
				       const struct weir_rule *rule, const int overhead, __u32 tags)
{
	struct xdp_md *ctx = run->ctx;
	__u8 tos = rule->dscp == WEIR_NONE8 ? user->tos : rule->dscp << 2 | (user->tos & 3);

	if (bpf_xdp_adjust_head(ctx, (int)run->tags - overhead - (int)tags))
		return drop(run, WEIR_NO_HEADROOM, user->total);
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, tags), *outer = behind + 14, *packet = outer + overhead;

	if (data + MOST_LINK > end || packet + sizeof(struct ip4) > end)
		return drop(run, WEIR_NO_HEADROOM, user->total);
	decrement_ttl(packet, user->is6);
	put_tunnel(outer, tunnel, rule, user->total + overhead, tos, overhead == 44);
	put_link(data, behind, &tunnel->next, tags);
	return send(run, &tunnel->next, WEIR_DOWN_PACKETS, user->total);
}

// The session of a packet from the core, and its number; none: it has none here.
static __always_inline struct weir_session *session_of(struct run *run, const struct user *user, __u32 *number)
{
	__u32 instance = run->port->instance;
	struct weir_key *key = find(user->is6 ? weir_prefix_key(instance, user->dst6[0]) :
						WEIR_KEY_ADDRESS | (__u64)instance << 32 | user->dst);

	if (!key)
		return 0;
	*number = key->session;
	return bpf_map_lookup_elem(&sessions, number);
}

// The rule of a packet from the core; none: there is none here, or the packet is not the session's. Neither tunnel endpoint
// nor class is compared.
static __always_inline struct weir_rule *down(struct run *run, struct weir_session *session, __u32 number,
					      const struct user *user, int *verdict)
{
	__u32 traits = traits_of(user, 0, 0), which;

	*verdict = OTHER;
	if (user->is6) {
		struct weir_session6 *half = bpf_map_lookup_elem(&sessions6, &number);

		if (!half || half->prefix != user->dst6[0] || session->instance != run->port->instance)
			return 0;
		which = match6(half->down.filters, user->src6, user->src_port, traits, 0x000fffff);
		if (which < WEIR_WAYS)
			return &half->down.rules[which & (WEIR_WAYS - 1)];
	} else {
		if (session->ue4 != user->dst || session->instance != run->port->instance)
			return 0;
		which = match(&session->down.quad, user->src, user->src_port, traits, 0x000fffff);
		if (which < WEIR_WAYS)
			return &session->down.rules[which & (WEIR_WAYS - 1)];
	}
	*verdict = hand_back(run, session, number);
	return 0;
}

static __always_inline int downlink(struct run *run, __u8 is6)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 length = length_of(ctx), at = 14 + run->tags, number;
	struct user user;
	int verdict;

	if (!read_user(data + at, end, length - at, &user) || user.is6 != is6)
		return OTHER;
	if (user.is6) {
		if (is_martian6(user.src6) || is_mine6(run->port, user.dst6))
			return OTHER;
	} else if (is_martian(user.src) || is_mine(run->port, user.dst)) {
		return OTHER;
	}
	struct weir_session *session = session_of(run, &user, &number);

	if (!session || !is_taken(session))
		return OTHER;
	struct weir_rule *rule = down(run, session, number, &user, &verdict);

	if (!rule)
		return verdict;
	struct weir_tunnel *tunnel = bpf_map_lookup_elem(&tunnels, &rule->tunnel);
	__u32 overhead = rule->encap == WEIR_CONTAINER ? 44 : 36;

	if (!tunnel || !tunnel->next.valid || user.ttl < 2 || user.total + overhead > tunnel->next.mtu)
		return hand_back(run, session, number);
	__u32 tags = tags_of(&tunnel->next);

	verdict = admit(run, session, number, rule, user.total);
	if (verdict)
		return verdict;
	if (cut(ctx, length - at - user.total))
		return drop(run, WEIR_NO_HEADROOM, user.total);
	return overhead == 44 ? into_tunnel(run, &user, tunnel, rule, 44, tags) :
				into_tunnel(run, &user, tunnel, rule, 36, tags);
}

// Whether a frame has the port's tags, as many and no others; its network header's type.
static __always_inline __be16 type_behind_tags(struct run *run, const void *data, const void *end)
{
	const struct weir_port *port = run->port;

	// No packet is shorter, nor a header with two tags.
	if (data + 38 > end)
		return 0;
	const __u32 *words = data + 12;

	if (((words[0] ^ port->tag[0]) & port->tag_mask[0]) | ((words[1] ^ port->tag[1]) & port->tag_mask[1]))
		return 0;
	run->tags = (port->tags & 3) * 4;
	const void *behind = behind_tags((void *)data, run->tags);

	return behind + 14 > end ? 0 : *(const __be16 *)(behind + 12);
}

static __always_inline int known(struct run *run)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct eth *eth = data;
	__u32 zero = 0, interface = ctx->ingress_ifindex;
	struct weir_config *settings = bpf_map_lookup_elem(&config, &zero);

	run->config = settings;
	run->port = bpf_map_lookup_elem(&ports, &interface);
	if (!settings || settings->paused || !run->port || (void *)(eth + 1) > end)
		return OTHER;
	__be16 type = type_behind_tags(run, data, end);
	const __u8 *mac = run->port->mac;

	if (!run->port->any_mac && (*(__u32 *)eth->to != *(__u32 *)mac || *(__u16 *)&eth->to[4] != *(__u16 *)&mac[4]))
		return OTHER;
	if (run->port->role == WEIR_ACCESS)
		return type == bpf_htons(0x0800) ? uplink(run) : OTHER;
	if (run->port->role != WEIR_CORE || (type != bpf_htons(0x0800) && type != bpf_htons(0x86dd)))
		return OTHER;
	return downlink(run, type == bpf_htons(0x86dd));
}

SEC("xdp") int weir_fastpath(struct xdp_md *ctx)
{
	__u32 number = bpf_get_smp_processor_id();
	struct run run = { .ctx = ctx, .cpu = bpf_map_lookup_elem(&cpus, &number) };
	int verdict = OTHER;

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
		run.cpu->counts[WEIR_OTHER] += verdict == OTHER;
		__sync_fetch_and_add(&run.cpu->ended, 1);
	}
	if (verdict != OTHER)
		return verdict;
	bpf_tail_call(ctx, &user_space, ctx->ingress_ifindex);
	return XDP_PASS;
}

struct arp {
	__be16 hardware, network;
	__u8 hardware_len, network_len;
	__be16 operation;
	__u8 sender[6], sender_ip[4], target[6], target_ip[4];
};

static __always_inline void swap_ends(struct eth *eth, const __u8 *mac)
{
	__builtin_memcpy(eth->to, eth->from, 6);
	__builtin_memcpy(eth->from, mac, 6);
}

// Who has our address is told (RFC 826): the same frame, back.
static __always_inline int answer_arp(struct run *run, struct eth *eth, struct arp *arp, const void *end)
{
	const __u8 *mac = run->port->mac;

	if ((void *)(arp + 1) > end || arp->hardware != bpf_htons(1) || arp->network != bpf_htons(0x0800) ||
	    arp->operation != bpf_htons(1) || run->port->any_mac)
		return XDP_PASS;
	__u32 wanted = (__u32)arp->target_ip[0] << 24 | arp->target_ip[1] << 16 | arp->target_ip[2] << 8 | arp->target_ip[3];

	if (!is_mine(run->port, wanted))
		return XDP_PASS;
	__u8 ours[4];

	__builtin_memcpy(ours, arp->target_ip, 4);
	arp->operation = bpf_htons(2);
	__builtin_memcpy(arp->target, arp->sender, 6);
	__builtin_memcpy(arp->target_ip, arp->sender_ip, 4);
	__builtin_memcpy(arp->sender, mac, 6);
	__builtin_memcpy(arp->sender_ip, ours, 4);
	swap_ends(eth, mac);
	return XDP_TX;
}

// Packets that nobody takes, for the process is gone: who asks for our addresses is answered, so that neighbours go on
// sending; others to them are dropped, and not passed to a host that knows nothing of them.
static __always_inline int alone(struct run *run)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	__u32 interface = run->ctx->ingress_ifindex;

	run->port = bpf_map_lookup_elem(&ports, &interface);
	if (!run->port || !run->port->role)
		return XDP_PASS;
	__be16 type = type_behind_tags(run, data, end);
	__u32 at = 14 + run->tags;

	if (type == bpf_htons(0x0806))
		return answer_arp(run, data, data + at, end);
	if (type == bpf_htons(0x0800)) {
		const struct ip4 *ip = data + at;

		return (void *)(ip + 1) <= end && is_mine(run->port, bpf_ntohl(ip->dst)) ? XDP_DROP : XDP_PASS;
	}
	if (type == bpf_htons(0x86dd)) {
		const struct ip6 *ip = data + at;

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		__u64 to[2] = { bpf_be64_to_cpu(ip->dst[0]), bpf_be64_to_cpu(ip->dst[1]) };

		return is_mine6(run->port, to) ? XDP_DROP : XDP_PASS;
	}
	return XDP_PASS;
}

SEC("xdp") int weir_alone(struct xdp_md *ctx)
{
	struct run run = { .ctx = ctx };

	return alone(&run);
}

char weir_license[] SEC("license") = "Dual BSD/GPL";

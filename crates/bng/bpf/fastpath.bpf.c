// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The in-kernel path of known IPoE subscribers: policed, counted, held against access lists, forwarded between their lines and
// the core. Shaped subscribers, translation, control protocols, fragments and errors are the user-space path's.
//
// Everything is decided before anything is written: what is not of the usual kind, or does not do with what stands in
// the maps, goes on to the user-space path as it came. A packet of a known subscriber that does so takes the subscriber with
// it (`hand_back`): packets behind it must not overtake it. Built by scripts/bpf.
#include "record.h"

// Tunnels whose ends are no ports of ours: GRE, ESP, IPv4 and IPv6 in IPv4.
#define WEIR_CARRIES(user) (!(user)->is6 && ((user)->protocol == 47 || (user)->protocol == 50 || \
					     (user)->protocol == 4 || (user)->protocol == 41))

#include "path.h"
#include "check_acl.h"

SHARED(places, weir_places, 1);

// What an access frame's tags say.
struct line {
	__u32 number;           // as weir_session.line
	__u32 types;            // of the tags, as they lie in a frame: the outer one's lower
	__u8 tags;
	__u8 priority;
	__be16 type;            // what is behind them
};

// What access lists make of a packet: counters, WEIR_NO_COUNTER where there is no list, and whether it is dropped.
struct decision {
	__u32 counters[2];
	__u32 denied;
};

// What is known of the packet under way, a CPU's own. Not on the stack, where the verifier would keep account of each value
// and follow each path with others by itself.
struct weir_scratch {
	struct user user;
	struct line line;
	struct decision decision;
	__u32 session;          // its subscriber's number
	__u32 tags;             // bytes of the frame's tags
	__u32 from_it;          // WEIR_FROM_IT: from the subscriber; 0: to it
} __attribute__((aligned(64)));

SHARED(scratch, weir_scratch, WEIR_CPUS);

// 1 if it is the type of a tag.
static __always_inline __u64 is_tag(__be16 type)
{
	return is_zero(type ^ bpf_htons(0x8100)) | is_zero(type ^ bpf_htons(0x88a8)) | is_zero(type ^ bpf_htons(0x9100));
}

// Reads up to two tags. 0: there are more, or one is of priority only (VLAN 0), which the user-space path makes sense of.
// Without a branch for each: the verifier would follow each of them through all that comes.
static __always_inline int read_line(const void *data, const void *end, __u32 port, struct line *line)
{
	// No packet is shorter, nor a header with two tags.
	if (data + 38 > end)
		return 0;
	const __be16 *words = data + 12;
	__u64 one = is_tag(words[0]), two = one & is_tag(words[2]), three = two & is_tag(words[4]);
	__u64 outer = bpf_ntohs(words[1]) & -one, inner = bpf_ntohs(words[3]) & 0xfff & -two;

	line->types = (words[0] & -one) | (words[2] & -two) << 16;
	line->type = words[0] ^ ((words[0] ^ words[2]) & -one) ^ ((words[2] ^ words[4]) & -two);
	line->priority = outer >> 13 & 7;
	line->tags = (one + two) & 3;
	outer &= 0xfff;
	line->number = port << 24 | outer << 12 | inner;
	return !((one & is_zero(outer)) | (two & is_zero(inner)) | three);
}

static __always_inline __u64 line_key(__u32 line)
{
	return WEIR_KEY_OWN | (__u64)line << WEIR_NUMBER_BITS;
}

// The key of a line of a shared VLAN pair.
static __always_inline __u64 shared_key(__u64 line, __u64 mac, __u64 seed)
{
	__u64 mixed = (mac + line * 0x9e3779b97f4a7c15ULL) * seed;

	return WEIR_KEY_OWN | WEIR_KEY_SHARED | mixed >> 27 << WEIR_NUMBER_BITS;
}

// A hardware address as a number, the way it lies in memory.
static __always_inline __u64 mac_of(const void *at)
{
	const __u16 *words = at;

	return words[0] | (__u64)words[1] << 16 | (__u64)words[2] << 32;
}

static __always_inline int has6(const struct weir_session *session, __u64 upper)
{
	return upper == session->wan || !((upper ^ session->pd) & ~0ULL << ((64 - (session->classes >> 24)) & 63));
}

// Types of its tags, as they lie in a frame: the outer one's lower; of one that is not there 0.
static __always_inline __u32 types_of(const struct weir_session *session)
{
	__u32 outer = WEIR_TYPES >> (session->tags >> 2 & 3) * 16 & 0xffff;
	__u32 inner = WEIR_TYPES >> (session->tags >> 4 & 3) * 16 & 0xffff;

	return outer | inner << 16;
}

// Whether a packet from a subscriber may be to the gateway itself or to another subscriber.
static __always_inline int is_here(__u16 instance, const struct user *user)
{
	__u32 zero = 0;
	const struct weir_places *here = bpf_map_lookup_elem(&places, &zero);
	__u64 found = 0;

	if (!here || !here->valid)
		return 1;
	if (user->is6) {
		__u32 bit = (__u32)(user->dst6[0] >> 32) * 0x9e3779b1U >> 20;

		found = here->near6[bit >> 6 & 63] >> (bit & 63) & 1;
		if (here->own6_count) {
#pragma unroll
			for (int n = 0; n < WEIR_OWN; n++)
				found |= is_zero((here->own6[n][0] ^ instance) | (here->own6[n][1] ^ user->dst6[0]) |
						 (here->own6[n][2] ^ user->dst6[1]));
		}
		return found != 0;
	}
	found = here->near4[user->dst >> 22 & 1023] >> (user->dst >> 16 & 63) & 1;
#pragma unroll
	for (int n = 0; n < 4; n++)
		found |= is_zero(here->own4[n] ^ ((__u64)instance << 32 | user->dst));
	if (here->own4_count > 4) {
#pragma unroll
		for (int n = 4; n < WEIR_OWN; n++)
			found |= is_zero(here->own4[n] ^ ((__u64)instance << 32 | user->dst));
	}
	return found != 0;
}

// Asks a subscriber's lists; nothing is counted yet. 0: one of them is not here.
static __always_inline int ask_lists(const struct weir_session *session, struct weir_scratch *packet)
{
	struct decision *decision = &packet->decision;
	__u32 traits = traits_of_user(&packet->user, packet->from_it);

#pragma unroll
	for (int n = 0; n < 2; n++) {
		__u32 number = session->acl[n];

		if (!number || decision->denied)
			continue;
		const struct weir_term *term = rule_of_list(number, &packet->user, traits);

		if (!term)
			return 0;
		decision->counters[n] = term->counter;
		decision->denied = term->deny;
	}
	return 1;
}

static __always_inline void count_hits(const struct decision *decision, __u16 bytes)
{
	__u32 zero = 0;
	const struct weir_places *here = bpf_map_lookup_elem(&places, &zero);

	if (!here || (decision->counters[0] & decision->counters[1]) == WEIR_NO_COUNTER)
		return;
	count_hit(decision->counters[0], here->counters, bytes);
	count_hit(decision->counters[1], here->counters, bytes);
}

// What access lists decided, rate and usage of a packet that nothing else stands against: 0 if it goes on, else the verdict.
// `from_it`: WEIR_FROM_IT or 0.
static __always_inline int admit(struct run *run, struct weir_session *session, struct weir_scratch *packet, __u32 from_it)
{
	const struct user *user = &packet->user;
	const struct decision *decision = &packet->decision;
	__u64 now = bpf_ktime_get_ns();

	if (!is_attended(run, now))
		return OTHER;
	if (decision->denied) {
		count_hits(decision, user->total);
		return drop(run, WEIR_ACL_DENIED, user->total);
	}
	struct weir_lane *lane = from_it ? &session->up : &session->down;
	struct weir_meter *meter = &lane->meter;
	__u32 bytes = user->total + session->overhead;

	if (session->flags & (from_it ? WEIR_METERED_UP : WEIR_METERED_DOWN)) {
		int taken = take(meter, now << 8, bytes * meter->per_byte >> 16);

		if (taken < 0)
			return hand_back(run, session, packet->session);
		if (!taken) {
			count_hits(decision, user->total);
			return drop(run, WEIR_SUBSCRIBER_RATE, user->total);
		}
	}
	__u32 family = user->is6 & 1;

	count_hits(decision, user->total);
	__sync_fetch_and_add(&lane->packets[family], 1);
	__sync_fetch_and_add(&lane->bytes[family], bytes);
	*(volatile __u64 *)&meter->own = now;
	return 0;
}

static __always_inline __u8 icmp6_type(const void *packet)
{
	return *(const __u8 *)(packet + sizeof(struct ip6));
}

// Whether a packet from a subscriber is one that is forwarded: neither of nor to an address that only has a meaning on its
// link, nor of a protocol between routers or hosts and routers.
static __always_inline int is_forwarded(const struct user *user, const void *packet, const void *end)
{
	if (!user->is6)
		return !is_martian(user->src) && user->dst < 0xe0000000;
	if (is_martian6(user->src6) || user->dst6[0] >> 56 == 0xff || is_link_local6(user->dst6))
		return 0;
	if (user->protocol != PROTO_ICMP6)
		return 1;
	if (packet + sizeof(struct ip6) + 1 > end)
		return 0;
	__u8 type = icmp6_type(packet);

	return (type < 130 || type > 137) && type != 143;
}

// The record of that number, if its packets are taken here.
static __always_inline struct weir_session *taken(__u32 number, __u32 from_it)
{
	struct weir_session *session = bpf_map_lookup_elem(&sessions, &number);

	if (!session)
		return 0;
	request(from_it ? &session->up : &session->down);
	return is_taken(session) ? session : 0;
}

// The subscriber of a frame's line, if its packets are taken here.
static __always_inline struct weir_session *of_line(const struct line *line, __u64 mac, __u64 seed, __u32 *number)
{
	__u32 found = find(line_key(line->number));

	if (!found)
		found = find_far(shared_key(line->number, mac, seed));
	if (!found)
		return 0;
	*number = found - 1;
	struct weir_session *session = taken(*number, WEIR_FROM_IT);

	if (!session || session->line != line->number || (session->tags & 3) != line->tags)
		return 0;
	// It is another line, then.
	return session->flags & WEIR_SHARED_LINE && mac_of(session->to) != mac ? 0 : session;
}

// Whether a packet is the subscriber's own: 0, or the verdict.
static __always_inline int check_source(struct run *run, struct weir_session *session, __u32 number,
					const struct line *line, __u64 mac, const struct user *user)
{
	int own = user->is6 ? has6(session, user->src6[0]) : user->src == session->ipv4;

	if (!own)
		return drop(run, WEIR_SPOOFED_SOURCE, user->total);
	if (mac != mac_of(session->to))
		return session->flags & WEIR_LEARNT ? hand_back(run, session, number) :
						      drop(run, WEIR_SPOOFED_SOURCE, user->total);
	// Types of tags that come otherwise than before are kept for the way back: by the worker.
	return types_of(session) == line->types ? 0 : hand_back(run, session, number);
}

// Finds the subscriber of a frame from the access side, and whether it may have sent it: 0, or the verdict.
static __always_inline int find_up(struct run *run, struct weir_scratch *packet)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct user *user = &packet->user;
	struct line *line = &packet->line;

	if (!read_line(data, end, run->port->number, line))
		return OTHER;
	__u32 tags = (line->tags & 3) * 4, at = 14 + tags, number;

	if ((line->type != bpf_htons(0x0800) && line->type != bpf_htons(0x86dd)) || data + 14 > end ||
	    !read_user(data + at, end, length_of(ctx) - at, user))
		return OTHER;
	if (user->is6 != (line->type == bpf_htons(0x86dd)) || !is_forwarded(user, data + at, end))
		return OTHER;
	// To DHCP servers: what a relay agent passes on is the worker's.
	if (user->protocol == PROTO_UDP && (user->dst_port == 67 || user->dst_port == 547))
		return OTHER;
	__u64 to = mac_of(data), mac = mac_of(data + 6);
	struct weir_session *session = of_line(line, mac, run->config->seed, &number);

	if (!session || to != mac_of(session->from) || is_here(session->instance, user))
		return OTHER;
	packet->session = number;
	packet->tags = tags;
	packet->from_it = WEIR_FROM_IT;
	return check_source(run, session, number, line, mac, user);
}

static __always_inline int upstream(struct run *run, struct weir_scratch *known, struct weir_session *session)
{
	struct xdp_md *ctx = run->ctx;
	struct user *user = &known->user;
	__u32 length = length_of(ctx), at = 14 + (known->tags & 12);
	struct weir_next *next =
		user->is6 ? route6(session->instance, user->src6, user->dst6) :
			     route(session->instance, user->src, user->dst);

	if (!next || user->total > next->mtu || user->ttl < 2)
		return hand_back(run, session, known->session);
	__u32 tags = tags_of(next);
	int verdict = admit(run, session, known, WEIR_FROM_IT);

	if (verdict)
		return verdict;
	__u8 dscp = session->flags & WEIR_MARKED ? session->dscp >> (known->line.priority & 7) * 6 & 63 : WEIR_NONE8;

	if (cut(ctx, length - at - user->total) || bpf_xdp_adjust_head(ctx, at - 14 - tags))
		return drop(run, WEIR_NO_HEADROOM, user->total);
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, tags), *packet = behind + 14;

	if (data + MOST_LINK > end || packet + sizeof(struct ip4) > end)
		return drop(run, WEIR_NO_HEADROOM, user->total);
	if (dscp != WEIR_NONE8)
		mark(packet, user->is6, dscp);
	decrement_ttl(packet, user->is6);
	put_link(data, behind, next, tags);
	return send(run, next->port, WEIR_UP_PACKETS, user->total);
}

// The subscriber that an address of the core's side leads to, and its number.
static __always_inline struct weir_session *of_address(struct run *run, const struct user *user, __u32 *number)
{
	__u32 instance = run->port->instance, zero = 0, found = 0, is_its = 0;

	if (instance >= WEIR_INSTANCES)
		return 0;

	if (user->is6) {
		const struct weir_places *here = bpf_map_lookup_elem(&places, &zero);

		if (!here)
			return 0;
#pragma unroll
		for (int n = 0; n < WEIR_LENGTHS; n++) {
			__u8 len = here->lengths[n];

			if (is_its || !len)
				continue;
			__u32 one = find(weir_prefix_key(instance, user->dst6[0], len)), at = one - 1;
			const struct weir_session *its = one ? bpf_map_lookup_elem(&sessions, &at) : 0;

			// Of prefixes of two lengths with the same key, it is that of which the packet is. The first one stands for
			// none: its record may not be written yet, and this packet counts as left to it.
			is_its = its && has6(its, user->dst6[0]);
			found = is_its || !found ? one : found;
		}
	} else {
		found = find(weir_address_key(instance, user->dst));
	}
	if (!found)
		return 0;
	*number = found - 1;
	struct weir_session *session = taken(*number, 0);

	if (!session || session->instance != instance)
		return 0;
	return (user->is6 ? has6(session, user->dst6[0]) : session->ipv4 == user->dst) ? session : 0;
}

// Puts a subscriber's link header, of which the last 14 bytes are at `behind`.
static __always_inline void put_line(void *to, void *behind, const struct weir_session *session, __u32 tags,
				     const struct user *user)
{
	const __u32 *words = (const void *)session->to;
	__u32 types = types_of(session), line = session->line;
	__u32 priority = (session->classes >> (user->tos >> 5) * 3 & 7) << 13;

	*(__u64 *)to = *(const __u64 *)words;
	((__u32 *)to)[2] = words[2];
	if (tags > 0)
		((__u32 *)to)[3] = (types & 0xffff) | (__u32)bpf_htons(priority | (line >> 12 & 0xfff)) << 16;
	if (tags > 4)
		((__u32 *)to)[4] = types >> 16 | (__u32)bpf_htons(priority | (line & 0xfff)) << 16;
	*(__be16 *)(behind + 12) = user->is6 ? bpf_htons(0x86dd) : bpf_htons(0x0800);
}

// Finds the subscriber that a packet of the core's side is to: 0, or the verdict.
static __always_inline int find_down(struct run *run, struct weir_scratch *packet, __u8 is6)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct user *user = &packet->user;
	__u32 at = 14 + run->tags, number;

	if (!read_user(data + at, end, length_of(ctx) - at, user) || user->is6 != is6)
		return OTHER;
	if (user->is6) {
		void *inner = data + at;

		if (inner + sizeof(struct ip6) + 1 > end)
			return OTHER;
		__u8 type = icmp6_type(inner);

		if (is_martian6(user->src6) || (user->protocol == PROTO_ICMP6 && type >= 133 && type <= 137))
			return OTHER;
	} else if (is_martian(user->src)) {
		return OTHER;
	}
	if (!of_address(run, user, &number))
		return OTHER;
	packet->session = number;
	packet->tags = run->tags;
	packet->from_it = 0;
	return 0;
}

static __always_inline int downstream(struct run *run, struct weir_scratch *known, struct weir_session *session)
{
	struct xdp_md *ctx = run->ctx;
	struct user *user = &known->user;
	__u32 length = length_of(ctx), at = 14 + (known->tags & 12), tags = (session->tags & 3) * 4 & 12;

	if (user->ttl < 2 || user->total > session->mtu)
		return hand_back(run, session, known->session);
	// A number of which the verifier knows both ends.
	asm volatile("" : "+r"(tags));
	int verdict = admit(run, session, known, 0);

	if (verdict)
		return verdict;
	if (cut(ctx, length - at - user->total) || bpf_xdp_adjust_head(ctx, at - 14 - tags))
		return drop(run, WEIR_NO_HEADROOM, user->total);
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, tags), *packet = behind + 14;

	if (data + MOST_LINK > end || packet + sizeof(struct ip4) > end)
		return drop(run, WEIR_NO_HEADROOM, user->total);
	decrement_ttl(packet, user->is6);
	put_line(data, behind, session, tags, user);
	return send(run, session->line >> 24, WEIR_DOWN_PACKETS, user->total);
}

// Finds whose a packet is: 0, and it stands in `packet`; or the verdict.
static __always_inline int find_subscriber(struct run *run, struct weir_scratch *packet)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	struct eth *eth = data;
	__u32 role = run->port->role;

	if ((void *)(eth + 1) > end)
		return OTHER;
	if (role == WEIR_CORE || role == WEIR_HYBRID) {
		__be16 type = type_behind_tags(run, data, end);

		if (type == bpf_htons(0x0800) || type == bpf_htons(0x86dd)) {
			if (!run->port->any_mac && mac_of(eth->to) != mac_of(run->port->mac))
				return OTHER;
			return find_down(run, packet, type == bpf_htons(0x86dd));
		}
	}
	return role == WEIR_ACCESS || role == WEIR_HYBRID ? find_up(run, packet) : OTHER;
}

static __always_inline int known(struct run *run)
{
	__u32 zero = 0, interface = run->ctx->ingress_ifindex, cpu = bpf_get_smp_processor_id();
	struct weir_scratch *packet = bpf_map_lookup_elem(&scratch, &cpu);
	struct weir_config *settings = bpf_map_lookup_elem(&config, &zero);

	run->config = settings;
	run->port = bpf_map_lookup_elem(&ports, &interface);
	if (!settings || settings->paused || !run->port || !packet)
		return OTHER;
	int verdict = find_subscriber(run, packet);

	if (verdict)
		return verdict;
	__u32 number = packet->session;
	struct weir_session *session = bpf_map_lookup_elem(&sessions, &number);

	if (!session)
		return OTHER;
	packet->decision.denied = 0;
	packet->decision.counters[0] = WEIR_NO_COUNTER;
	packet->decision.counters[1] = WEIR_NO_COUNTER;
	if ((session->acl[0] | session->acl[1]) && !ask_lists(session, packet))
		return hand_back(run, session, number);
	return packet->from_it ? upstream(run, packet, session) : downstream(run, packet, session);
}

#include "begin.h"

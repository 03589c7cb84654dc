// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The in-kernel path of known sessions: GTP-U out of the tunnel and into it, IPv4 and IPv6 users over either transport; access
// lists of up to 16 rules, and translation of flows that have a mapping.
//
// Everything is decided before anything is written: what is not of the usual kind, or does not do with what stands in
// the maps, goes on to the user-space path as it came. A packet of a known session that does so takes its session with it
// (`hand_back`): packets behind it must not overtake it. For fragments and packets with options or extension headers no session is
// looked up: its worker takes the session back when they reach it. Built by scripts/bpf.
#include "record.h"
#include "path.h"
#include "check_acl.h"
#include "translate.h"

SHARED(sessions6, weir_session6, 1);
SHARED(tunnels, weir_tunnel, 1);
SHARED(plane, weir_plane, 1);

// What is known of the packet under way, a CPU's own. Not on the stack, where the verifier would keep account of each value
// and follow each path with others by itself.
struct weir_scratch {
	struct user user;
	struct weir_readdressed way;
	struct weir_rule rule;  // of a packet from a subscriber
	struct weir_next next;
	__u32 counter;          // of the access list's rule; WEIR_NO_COUNTER: there is none
	__u32 counters;         // that there are
	__u32 denied;
	__u32 is_first;         // lists come before gates and rates: from the core
} __attribute__((aligned(64)));

SHARED(scratch, weir_scratch, WEIR_CPUS);

static __always_inline struct weir_scratch *scratch_of(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&scratch, &cpu);
}

// What was written there is read from there.
static __always_inline void forget(void)
{
	asm volatile("" : : : "memory");
}

struct gtpu {
	__u8 flags, type;
	__be16 len;
	__be32 teid;
};

struct container {
	__be16 sequence;
	__u8 npdu, type, len, pdu, qfi, next;
};

#define PORT_GTPU 2152
#define STATE_PORTS 1

// The packet's bytes behind the link header, if it is UDP over IPv4 to us; 0: it is not, or there are options, or it is a fragment,
// or its type of service has one of those `marks`.
static __always_inline __u32 transport4(const struct run *run, const struct ip4 *ip, const void *end, const __u8 marks)
{
	if ((const void *)(ip + 1) > end)
		return 0;
	if (ip->version != 0x45 || ip->protocol != PROTO_UDP || ip->fragment & bpf_htons(0x3fff) || ip->tos & marks)
		return 0;
	return is_mine(run->port, bpf_ntohl(ip->dst)) && sum20(ip) == 0xffff ? bpf_ntohs(ip->total) : 0;
}

#include "transport6.h"
#include "echo.h"

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

// What the access list of an instance makes of a packet; nothing is counted yet. 0: the list is not here. `from_it`:
// WEIR_FROM_IT, or 0 of a packet to a subscriber.
static __always_inline int ask_list(struct weir_scratch *packet, __u32 instance, __u32 from_it)
{
	__u32 zero = 0;
	const struct weir_plane *functions = bpf_map_lookup_elem(&plane, &zero);

	packet->counter = WEIR_NO_COUNTER;
	packet->counters = 0;
	packet->denied = 0;
	packet->is_first = !from_it;
	if (!functions || !functions->counters)
		return 1;
	packet->counters = functions->counters;
	const struct weir_term *term = rule_of_list(instance, &packet->user, traits_of_user(&packet->user, from_it));

	if (!term)
		return 0;
	packet->counter = term->counter;
	packet->denied = term->deny;
	return 1;
}

static __always_inline void count_rule(const struct weir_scratch *packet)
{
	count_hit(packet->counter, packet->counters, packet->user.total);
}

// Drops a packet for what comes behind the lists of those to subscribers.
static __always_inline int refuse(struct run *run, const struct weir_scratch *packet, int reason)
{
	if (packet->is_first)
		count_rule(packet);
	return drop(run, reason, packet->user.total);
}

static __always_inline int deny(struct run *run, const struct weir_scratch *packet)
{
	count_rule(packet);
	return drop(run, WEIR_ACL_DENIED, packet->user.total);
}

// Gates, rates, access lists and usage of a packet that nothing else stands against: 0 if it goes on, else the verdict. Packets
// from subscribers are held against lists behind their rates, as workers do.
static __always_inline int admit(struct run *run, struct weir_session *session, __u32 number,
				 const struct weir_rule *rule, const struct weir_scratch *packet)
{
	__u16 bytes = packet->user.total;

	if (trips(session, rule->tallies[0], bytes) || trips(session, rule->tallies[1], bytes))
		return hand_back(run, session, number);
	__u64 now = bpf_ktime_get_ns();

	// Without anybody who reports what is counted, for a while only.
	if (!is_attended(run, now))
		return OTHER;
	run->now = now;
	if (packet->is_first && packet->denied)
		return deny(run, packet);
	if (rule->flags & WEIR_CLOSED)
		return refuse(run, packet, WEIR_GATE_CLOSED);
	now <<= 8;
	struct weir_meter *first = meter_at(session, rule->meters[0]), *second = meter_at(session, rule->meters[1]);
	__u64 cost = cost_of(first, bytes);

	if (rule->meters[0]) {
		int taken = take(first, now, cost);

		if (taken < 0)
			return hand_back(run, session, number);
		if (!taken)
			return refuse(run, packet, rule->flags & WEIR_SESSION0 ? WEIR_SESSION_RATE : WEIR_FLOW_RATE);
	}
	if (rule->meters[1]) {
		int taken = take(second, now, cost_of(second, bytes));

		if (taken <= 0 && rule->meters[0])
			__sync_fetch_and_add(&first->full_at, -cost);
		if (taken < 0)
			return hand_back(run, session, number);
		if (!taken)
			return refuse(run, packet, rule->flags & WEIR_SESSION1 ? WEIR_SESSION_RATE : WEIR_FLOW_RATE);
	}
	if (packet->denied)
		return deny(run, packet);
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
	count_rule(packet);
	return 0;
}

// Gives a packet that goes on the other end of its flow, if it has one: 0, or the verdict.
static __always_inline int translate(struct run *run, const struct weir_scratch *known, void *packet, const void *end,
				     const int is_source)
{
	if (!known->way.is_there || readdress(packet, end, known->user.protocol, is_source, known->way.to))
		return 0;
	return drop(run, WEIR_NO_HEADROOM, known->user.total);
}

// The rule of an uplink packet of a session: a copy of it in `found`, and 0; or the verdict.
static __always_inline int up4(struct run *run, struct weir_session *session, __u32 number, const struct user *user,
			       __u32 traits, struct weir_rule *found)
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
	*found = *rule;
	return 0;
}

static __always_inline int up6(struct run *run, struct weir_session *session, __u32 number, const struct user *user,
			       __u32 traits, struct weir_rule *found)
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
	*found = *rule;
	return 0;
}

// A session's record, of which buckets and counts are far behind what says whose it is.
static __always_inline struct weir_session *record_of(__u32 number)
{
	struct weir_session *session = bpf_map_lookup_elem(&sessions, &number);

	if (session) {
		request(&session->meters[0]);
		request(&session->meters[1]);
		request(&session->tallies[0]);
		request(&session->tallies[1]);
	}
	return session;
}

// The next station of an uplink packet, by the address it leaves with, in known->next; 0: there is none. A copy: it may stand in
// one of four maps, and the verifier would follow each to the end.
static __always_inline int next_up(struct weir_scratch *known)
{
	const struct user *user = &known->user;
	__u32 source = known->way.is_there ? (__u32)known->way.to : user->src;
	const struct weir_next *next = user->is6 ? route6(known->rule.instance, user->src6, user->dst6) :
						   route(known->rule.instance, source, user->dst);

	if (next)
		known->next = *next;
	return next != 0;
}

// A packet out of its tunnel: the user's packet is `at` bytes from the frame's start, of which so many are the datagram's.
static __always_inline int uplink_user(struct run *run, __u32 at, __u32 room, __u32 teid, __u8 qfi)
{
	struct xdp_md *ctx = run->ctx;
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 length = length_of(ctx);
	struct weir_scratch *known = scratch_of();

	if (!known || !read_user(data + at, end, room, &known->user))
		return OTHER;
	struct user *user = &known->user;

	forget();
	__u32 at_key = find(WEIR_KEY_TEID | (__u64)teid << WEIR_NUMBER_BITS), number = at_key - 1, hits = 0;

	if (!at_key)
		return OTHER;
	struct weir_session *session = record_of(number);

	if (!session || !is_taken(session))
		return OTHER;
#pragma unroll
	for (int n = 0; n < WEIR_ENDS; n++)
		hits |= is_zero(session->teids[n] ^ teid) << n;
	if (!hits)
		return OTHER;
	__u32 endpoint = first_of(hits) & (WEIR_ENDS - 1);

	__u32 traits = traits_of(user, endpoint, qfi);
	struct weir_rule *rule = &known->rule;
	struct weir_next *next = &known->next;
	int verdict = user->is6 ? up6(run, session, number, user, traits, rule) :
				  up4(run, session, number, user, traits, rule);

	if (verdict)
		return verdict;
	forget();
	if (user->ttl < 2 || !ask_list(known, rule->instance, WEIR_FROM_IT))
		return hand_back(run, session, number);
	forget();
	known->way.is_there = 0;
	// What is dropped needs no mapping.
	int is_refused = known->denied || rule->flags & WEIR_CLOSED;

	if (!is_refused && !outward(user, rule->instance, session->handle, data + at, end, &known->way))
		return hand_back_as(run, session, number, WEIR_FOR_FLOW);
	forget();
	if (!next_up(known) || user->total > next->mtu)
		return hand_back(run, session, number);
	forget();
	__u32 tags = tags_of(next);

	verdict = admit(run, session, number, rule, known);
	if (verdict)
		return verdict;
	stamp_flow(&known->way, 1, run->now);
	verdict = translate(run, known, data + at, end, 1);
	if (verdict)
		return verdict;
	forget();
	__u8 dscp = rule->dscp;

	if (cut(ctx, length - at - user->total) || bpf_xdp_adjust_head(ctx, at - 14 - tags))
		return drop(run, WEIR_NO_HEADROOM, user->total);
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	void *behind = behind_tags(data, tags), *packet = behind + 14;

	if (data + MOST_LINK > end || packet + sizeof(struct ip4) > end)
		return drop(run, WEIR_NO_HEADROOM, user->total);
	if (dscp != WEIR_NONE8)
		mark(packet, user->is6, dscp);
	decrement_ttl(packet, user->is6);
	put_link(data, behind, next, tags);
	return send(run, next->port, WEIR_UP_PACKETS, user->total);
}

// A packet from access, over IPv4 or IPv6: `is6` is 0 or 1.
static __always_inline int uplink(struct run *run, __u32 is6)
{
	void *data = (void *)(long)run->ctx->data, *end = (void *)(long)run->ctx->data_end;
	__u32 at = 14 + run->tags, ip_len = 20 + 20 * is6;
	// Marks of congestion can change the packet inside: they are the user-space path's.
	__u32 total = is6 ? transport6(run, data + at, end, 1) : transport4(run, data + at, end, 1);

	// Both come together here: the verifier follows what is next once.
	data = (void *)(long)run->ctx->data;
	end = (void *)(long)run->ctx->data_end;
	struct udp *udp = data + at + ip_len;
	struct gtpu *gtpu = (void *)(udp + 1);
	struct container *container = (void *)(gtpu + 1);

	if ((void *)(container + 1) > end || udp->dst != bpf_htons(PORT_GTPU))
		return OTHER;
	__u32 datagram = bpf_ntohs(udp->len), message = bpf_ntohs(gtpu->len);

	if (datagram < 16 || ip_len + datagram > total || at + total > length_of(run->ctx) || 16 + message > datagram)
		return OTHER;
	__u32 header = 16, qfi = WEIR_NONE8;

	if (*(__be16 *)gtpu != bpf_htons(0x30ff)) {
		// E alone; one extension: a PDU session container of four bytes (TS 38.415).
		if (*(__be16 *)gtpu != bpf_htons(0x34ff) || container->type != 0x85 || container->len != 1 ||
		    container->pdu & 0xe0 || container->next || message < 8)
			return OTHER;
		header = 24;
		qfi = container->qfi & 0x3f;
	}
	return uplink_user(run, at + ip_len + header, datagram - header, bpf_ntohl(gtpu->teid), qfi);
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
	return send(run, tunnel->next.port, WEIR_DOWN_PACKETS, user->total);
}

// The session of a packet from the core, and its number; none: it has none here.
static __always_inline struct weir_session *session_of(struct run *run, const struct user *user, __u32 *number)
{
	__u32 instance = run->port->instance;

	if (instance >= WEIR_INSTANCES)
		return 0;
	__u32 found = find(user->is6 ? weir_prefix_key(instance, user->dst6[0], 64) : weir_address_key(instance, user->dst));

	if (!found)
		return 0;
	*number = found - 1;
	return record_of(*number);
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
	struct weir_scratch *known = scratch_of();
	int verdict;

	if (!known || !read_user(data + at, end, length - at, &known->user))
		return OTHER;
	struct user *user = &known->user;

	forget();
	if (user->is6 != is6)
		return OTHER;
	if (user->is6) {
		if (is_martian6(user->src6) || is_mine6(run->port, user->dst6))
			return OTHER;
	} else if (is_martian(user->src) || is_mine(run->port, user->dst)) {
		return OTHER;
	}
	if (!inward(user, run->port->instance, data + at, end, &known->way))
		return OTHER;
	forget();
	struct weir_session *session = session_of(run, user, &number);

	if (!session || !is_taken(session))
		return OTHER;
	struct weir_rule *rule = down(run, session, number, user, &verdict);

	if (!rule)
		return verdict;
	// What ends a connection is its worker's to see, and so is a flow that is another session's by now.
	if (known->way.is_there && (known->way.session != session->handle || known->way.ends))
		return hand_back_as(run, session, number, WEIR_FOR_FLOW);
	struct weir_tunnel *tunnel = bpf_map_lookup_elem(&tunnels, &rule->tunnel);
	__u32 overhead = rule->encap == WEIR_CONTAINER ? 44 : 36;

	if (!tunnel || !tunnel->next.valid || user->ttl < 2)
		return hand_back(run, session, number);
	__u32 over6 = tunnel->version == 6;

	if (user->total + overhead + 20 * over6 > tunnel->next.mtu || (over6 && user->total > MOST_SUMMED) ||
	    !ask_list(known, run->port->instance, 0))
		return hand_back(run, session, number);
	forget();
	__u32 tags = tags_of(&tunnel->next);

	verdict = admit(run, session, number, rule, known);
	if (verdict == OTHER)
		return OTHER;
	// It came, whatever becomes of it: workers translate before anything else.
	stamp_flow(&known->way, 0, run->now);
	if (!verdict)
		verdict = translate(run, known, data + at, end, 0);
	if (verdict)
		return verdict;
	forget();
	if (cut(ctx, length - at - user->total))
		return drop(run, WEIR_NO_HEADROOM, user->total);
	if (over6)
		return overhead == 44 ? into_tunnel6(run, user, tunnel, rule, 64, tags) :
					into_tunnel6(run, user, tunnel, rule, 56, tags);
	return overhead == 44 ? into_tunnel(run, user, tunnel, rule, 44, tags) :
				into_tunnel(run, user, tunnel, rule, 36, tags);
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
	if (type != bpf_htons(0x0800) && type != bpf_htons(0x86dd))
		return OTHER;
	if (run->port->role == WEIR_ACCESS)
		return uplink(run, is_zero(type ^ bpf_htons(0x86dd)));
	if (run->port->role != WEIR_CORE)
		return OTHER;
	return downlink(run, type == bpf_htons(0x86dd));
}

#include "begin.h"

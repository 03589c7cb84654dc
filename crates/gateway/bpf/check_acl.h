// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Access lists: which rule of a list a packet is held against. Behind path.h and a record.h that includes acl.h.
#ifndef WEIR_CHECK_ACL_H
#define WEIR_CHECK_ACL_H
#include "acl.h"
#include "path.h"

SHARED(lists, weir_list, WEIR_LISTS);
SHARED(hits, weir_hits, 1);

// Of four terms from `at` on, the first that matches; none: `found`.
static __always_inline __u64 first_of_four(const struct weir_list *list, const int at, const struct user *user,
					   __u32 traits, __u64 found)
{
#pragma unroll
	for (int n = at + 3; n >= at; n--) {
		const struct weir_term *term = &list->terms[n];
		__u64 unlike = ((user->src6[0] ^ term->src[0]) & term->src_mask[0]) |
			       ((user->src6[1] ^ term->src[1]) & term->src_mask[1]) |
			       ((user->dst6[0] ^ term->dst[0]) & term->dst_mask[0]) |
			       ((user->dst6[1] ^ term->dst[1]) & term->dst_mask[1]) |
			       ((traits ^ term->traits) & term->traits_mask);
		__u64 from = (__u16)(user->src_port - term->src_lo), to = (__u16)(user->dst_port - term->dst_lo);

		// Numbers of which the compiler knows no bounds: of their comparison it would make a branch, and the verifier would
		// follow each.
		asm volatile("" : "+r"(from), "+r"(to));
		__u64 outside = (term->src_span - from) >> 63 | (term->dst_span - to) >> 63;
		__u64 hit = -(is_zero(unlike) & ~outside);

		found ^= (found ^ n) & hit;
		// One after the other: loads of all at once would not fit the stack.
		asm volatile("" : "+r"(found) : : "memory");
	}
	return found;
}

static __always_inline const struct weir_term *first_term(const struct weir_list *list, const struct user *user,
							  __u32 traits)
{
	__u64 found = WEIR_TERMS;
	__u32 count = list->count;

	if (count > 12)
		found = first_of_four(list, 12, user, traits, found);
	if (count > 8)
		found = first_of_four(list, 8, user, traits, found);
	if (count > 4)
		found = first_of_four(list, 4, user, traits, found);
	found = first_of_four(list, 0, user, traits, found);
	return &list->terms[found <= WEIR_TERMS ? found : WEIR_TERMS];
}

// What rules look at beside addresses and ports; IPv4 addresses are put where rules look for them. `from_it`: WEIR_FROM_IT
// or 0.
static __always_inline __u32 traits_of_user(struct user *user, __u32 from_it)
{
	__u32 ported = user->protocol == PROTO_UDP || user->protocol == PROTO_TCP ? WEIR_HAS_PORTS : 0;

	if (!user->is6) {
		user->src6[0] = user->dst6[0] = 0;
		user->src6[1] = user->src;
		user->dst6[1] = user->dst;
	}
	return user->protocol | (__u32)(user->tos >> 2) << 8 | (user->is6 ? 6U : 4U) << 16 | from_it | ported;
}

// The rule of a list for a packet, which stands in a map: not on the stack, where the verifier would follow each value it
// knows through all rules. 0: the list is not here.
static __always_inline const struct weir_term *rule_of_list(__u32 number, const struct user *user, __u32 traits)
{
	const struct weir_list *list = bpf_map_lookup_elem(&lists, &number);

	return list && list->valid ? first_term(list, user, traits) : 0;
}

// On this CPU: rules that are everybody's are counted on all at once. `counters`: of each CPU.
static __always_inline void count_hit(__u32 counter, __u32 counters, __u16 bytes)
{
	if (counter >= counters)
		return;
	counter += bpf_get_smp_processor_id() * counters;
	struct weir_hits *entry = bpf_map_lookup_elem(&hits, &counter);

	if (entry) {
		entry->packets++;
		entry->bytes += bytes;
	}
}

#endif

/* Rules of rte_flow: packets that match go to a queue. */

#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_flow.h>

/* What is compared. */
enum { GTPU4, GTPU6, SESSION4, TO4, TO6, VLAN };

struct weir_flow_rule {
	uint8_t kind;
	uint8_t tags;		/* before the network header; with VLAN: 1 */
	uint16_t queue;
	uint64_t value;		/* in the least bits; of an IPv6 address the upper half */
	uint64_t mask;
};

/* Offset of the tunnel endpoint identifier in the item, whose fields have other names from version to version. */
#define GTP_TEID 4

/* The rule at the device, if it takes it; else NULL, with the reason in `why`. `only_ask`: not NULL if it would. */
struct rte_flow *weir_flow_create(uint16_t port, const struct weir_flow_rule *rule, int only_ask, char *why,
	size_t room)
{
	static char would;
	struct rte_flow_attr attr = { .ingress = 1 };
	struct rte_flow_action_queue to = { .index = rule->queue };
	struct rte_flow_action actions[] = {
		{ .type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to },
		{ .type = RTE_FLOW_ACTION_TYPE_END },
	};
	struct rte_flow_item items[8] = { { .type = RTE_FLOW_ITEM_TYPE_ETH } }, *last = items, *tunnel = NULL;
	struct rte_flow_item_vlan vlan = { 0 }, vlan_mask = { 0 };
	struct rte_flow_item_ipv4 ip4 = { 0 }, ip4_mask = { 0 };
	struct rte_flow_item_ipv6 ip6 = { 0 }, ip6_mask = { 0 };
	struct rte_flow_item_gtp gtp = { 0 }, gtp_mask = { 0 };
	struct rte_flow_item_l2tpv3oip session = { 0 }, session_mask = { 0 };
	struct rte_flow_error error = { 0 }, other;
	struct rte_flow *flow = NULL;
	rte_be32_t value = rte_cpu_to_be_32((uint32_t)rule->value), mask = rte_cpu_to_be_32((uint32_t)rule->mask);
	rte_be64_t upper = rte_cpu_to_be_64(rule->value), upper_mask = rte_cpu_to_be_64(rule->mask);
	int failed;

	for (uint8_t n = 0; n < rule->tags; n++)
		(++last)->type = RTE_FLOW_ITEM_TYPE_VLAN;
	switch (rule->kind) {
	case VLAN:
		vlan.hdr.vlan_tci = rte_cpu_to_be_16((uint16_t)rule->value);
		vlan_mask.hdr.vlan_tci = rte_cpu_to_be_16((uint16_t)rule->mask);
		last->spec = &vlan;
		last->mask = &vlan_mask;
		break;
	case GTPU4:
	case GTPU6:
		(++last)->type = rule->kind == GTPU4 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6;
		(++last)->type = RTE_FLOW_ITEM_TYPE_UDP;
		memcpy((char *)&gtp + GTP_TEID, &value, sizeof(value));
		memcpy((char *)&gtp_mask + GTP_TEID, &mask, sizeof(mask));
		tunnel = ++last;
		*tunnel = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_GTPU, .spec = &gtp, .mask = &gtp_mask };
		break;
	case SESSION4:
		(++last)->type = RTE_FLOW_ITEM_TYPE_IPV4;
		session.session_id = value;
		session_mask.session_id = mask;
		(++last)->type = RTE_FLOW_ITEM_TYPE_L2TPV3OIP;
		last->spec = &session;
		last->mask = &session_mask;
		break;
	case TO4:
		ip4.hdr.dst_addr = value;
		ip4_mask.hdr.dst_addr = mask;
		*++last = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &ip4, .mask = &ip4_mask };
		break;
	default:
		memcpy(&ip6.hdr.dst_addr, &upper, sizeof(upper));
		memcpy(&ip6_mask.hdr.dst_addr, &upper_mask, sizeof(upper_mask));
		*++last = (struct rte_flow_item){ .type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &ip6, .mask = &ip6_mask };
	}
	(++last)->type = RTE_FLOW_ITEM_TYPE_END;
	failed = rte_flow_validate(port, &attr, items, actions, &error);
	if (failed != 0 && tunnel != NULL) {
		/* Some drivers have this item, some the other (net_mlx5): GTP-U's by the UDP port. */
		tunnel->type = RTE_FLOW_ITEM_TYPE_GTP;
		if (rte_flow_validate(port, &attr, items, actions, &other) == 0)
			failed = 0;
	}
	if (failed == 0 && only_ask)
		return (struct rte_flow *)&would;
	if (failed == 0) {
		flow = rte_flow_create(port, &attr, items, actions, &error);
		failed = -rte_errno;
	}
	if (flow == NULL)
		snprintf(why, room, "%s", error.message != NULL ? error.message : rte_strerror(-failed));
	return flow;
}

int weir_flow_destroy(uint16_t port, struct rte_flow *flow)
{
	struct rte_flow_error error;

	return rte_flow_destroy(port, flow, &error);
}

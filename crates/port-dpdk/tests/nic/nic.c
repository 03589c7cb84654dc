/* A device for tests that divides packets among its queues by the rules it was given, as NICs do: two net_ring devices, one for
 * the port under test, one for the far end, with a classifier between them. Its rte_flow is here in place of DPDK's, which
 * devices of other drivers go on to. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#define QUEUES 4
#define RULES 64
#define ITEMS 8
#define ITEM_BYTES 64

struct item {
	int type;
	int compares;
	uint8_t spec[ITEM_BYTES];
	uint8_t mask[ITEM_BYTES];
};

struct rule {
	int used;
	uint16_t queue;
	int items;
	struct item item[ITEMS];
};

struct test_nic {
	char name[32];
	uint16_t queues;
	/* Rules that it takes: any more are refused when they are made. Negative: it refuses when it is asked. */
	int room;
	/* The item by which it knows GTP-U. */
	int gtp;
	/* It destroys no rule. */
	int clings;
	int made;
	int destroyed;
	uint64_t by_rule;
	uint64_t by_none;
	struct rule rule[RULES];
	struct rte_ring *in, *out, *rx[QUEUES], *tx[QUEUES];
};

/* As net_ring's argument `internal` has it. */
struct ring_arguments {
	struct rte_ring *const *rx;
	unsigned int rx_count;
	struct rte_ring *const *tx;
	unsigned int tx_count;
	unsigned int node;
	void *self;
};

/* Those of all tests, which run at the same time. */
static struct test_nic *nics[64];
static unsigned int nic_count;

static struct rte_ring *ring(const struct test_nic *nic, const char *of, unsigned int n)
{
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "%s_%s%u", nic->name, of, n);
	return rte_ring_create(name, 1024, SOCKET_ID_ANY, 0);
}

static void arguments(char *to, size_t room, const char *name, struct rte_ring *const *rx, unsigned int rx_count,
	struct rte_ring *const *tx, unsigned int tx_count)
{
	/* It is read when the device is probed, and stays. */
	struct ring_arguments *internal = calloc(1, sizeof(*internal));

	*internal = (struct ring_arguments){ rx, rx_count, tx, tx_count, 0, internal };
	snprintf(to, room, "%s,internal=%p", name, (void *)internal);
}

/* A device of that name with rings; the device names of its two ends, with their arguments. DPDK has started. */
struct test_nic *test_nic_new(const char *name, uint16_t queues, char *near, char *far, size_t room)
{
	struct test_nic *nic = calloc(1, sizeof(*nic));
	char end[64];
	unsigned int at;

	snprintf(nic->name, sizeof(nic->name), "net_ring_%s", name);
	nic->queues = queues;
	nic->room = RULES;
	nic->gtp = RTE_FLOW_ITEM_TYPE_GTPU;
	nic->in = ring(nic, "in", 0);
	nic->out = ring(nic, "out", 0);
	for (unsigned int n = 0; n < queues; n++) {
		nic->rx[n] = ring(nic, "rx", n);
		nic->tx[n] = ring(nic, "tx", n);
	}
	arguments(near, room, nic->name, nic->rx, queues, nic->tx, queues);
	snprintf(end, sizeof(end), "%s_far", nic->name);
	arguments(far, room, end, &nic->out, 1, &nic->in, 1);
	at = __atomic_fetch_add(&nic_count, 1, __ATOMIC_RELAXED);
	if (at >= RTE_DIM(nics))
		return NULL;
	__atomic_store_n(&nics[at], nic, __ATOMIC_RELEASE);
	return nic;
}

void test_nic_room(struct test_nic *nic, int room)
{
	nic->room = room;
}

/* Whether it refuses to destroy rules from now on. */
void test_nic_clings(struct test_nic *nic, int clings)
{
	nic->clings = clings;
}

/* From now on it knows GTP-U by the item GTP alone, as net_mlx5 does. */
void test_nic_gtp(struct test_nic *nic)
{
	nic->gtp = RTE_FLOW_ITEM_TYPE_GTP;
}

/* Rules it has, rules that were made and destroyed, packets that a rule led, and the others. */
void test_nic_counts(const struct test_nic *nic, uint64_t counts[5])
{
	memset(counts, 0, 5 * sizeof(counts[0]));
	for (size_t n = 0; n < RULES; n++)
		counts[0] += nic->rule[n].used;
	counts[1] = nic->made;
	counts[2] = nic->destroyed;
	counts[3] = nic->by_rule;
	counts[4] = nic->by_none;
}

static uint16_t half(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static int equal(const struct item *item, size_t at, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((item->spec[at + i] ^ bytes[i]) & item->mask[at + i])
			return 0;
	return 1;
}

/* Only packets that look as the pattern does, header by header, are matched. */
static int matches(const struct rule *rule, const uint8_t *packet, size_t len)
{
	size_t at = 0;
	uint16_t type = 0;
	uint8_t protocol = 0;

	for (int n = 0; n < rule->items; n++) {
		const struct item *item = &rule->item[n];

		switch (item->type) {
		case RTE_FLOW_ITEM_TYPE_ETH:
			if (len < 14)
				return 0;
			type = half(packet + 12);
			at = 14;
			break;
		case RTE_FLOW_ITEM_TYPE_VLAN:
			if ((type != 0x8100 && type != 0x88a8) || len < at + 4 || !equal(item, 0, packet + at, 2))
				return 0;
			type = half(packet + at + 2);
			at += 4;
			break;
		case RTE_FLOW_ITEM_TYPE_IPV4:
			if (type != 0x0800 || len < at + 20 || !equal(item, 0, packet + at, 20) || (half(packet + at + 6) & 0x1fff) != 0)
				return 0;
			protocol = packet[at + 9];
			at += (packet[at] & 15) * 4;
			break;
		case RTE_FLOW_ITEM_TYPE_IPV6:
			if (type != 0x86dd || len < at + 40 || !equal(item, 0, packet + at, 40))
				return 0;
			protocol = packet[at + 6];
			at += 40;
			break;
		case RTE_FLOW_ITEM_TYPE_UDP:
			if (protocol != 17 || len < at + 8)
				return 0;
			at += 8;
			break;
		case RTE_FLOW_ITEM_TYPE_GTPU:
		case RTE_FLOW_ITEM_TYPE_GTP:
			if (len < at + 8 || half(packet + at - 6) != 2152 || !equal(item, 0, packet + at, 8))
				return 0;
			break;
		case RTE_FLOW_ITEM_TYPE_L2TPV3OIP:
			if (protocol != 115 || len < at + 4 || !equal(item, 0, packet + at, 4))
				return 0;
			break;
		default:
			return 0;
		}
	}
	return 1;
}

/* Moves what the far end has sent to the queues, and what the queues have sent to the far end. What no rule matches is divided
 * evenly, three in a row. Returns how many packets were moved. */
unsigned int test_nic_turn(struct test_nic *nic)
{
	unsigned int moved = 0;
	void *one;

	while (rte_ring_dequeue(nic->in, &one) == 0) {
		struct rte_mbuf *m = one;
		uint16_t queue = (uint16_t)(nic->by_none / 3 % nic->queues);
		int found = 0;

		for (size_t n = 0; n < RULES && !found; n++) {
			const struct rule *rule = &nic->rule[n];

			if (rule->used && matches(rule, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len)) {
				queue = rule->queue;
				found = 1;
			}
		}
		if (found)
			nic->by_rule++;
		else
			nic->by_none++;
		if (rte_ring_enqueue(nic->rx[queue], one) != 0)
			abort();
		moved++;
	}
	for (uint16_t n = 0; n < nic->queues; n++) {
		while (rte_ring_dequeue(nic->tx[n], &one) == 0) {
			if (rte_ring_enqueue(nic->out, one) != 0)
				abort();
			moved++;
		}
	}
	return moved;
}

/* ---- rte_flow. ---- */

static struct test_nic *nic_of(uint16_t port)
{
	char name[RTE_ETH_NAME_MAX_LEN];

	if (rte_eth_dev_get_name_by_port(port, name) != 0)
		return NULL;
	for (size_t n = 0; n < RTE_DIM(nics); n++) {
		struct test_nic *nic = __atomic_load_n(&nics[n], __ATOMIC_ACQUIRE);

		if (nic != NULL && strcmp(nic->name, name) == 0)
			return nic;
	}
	return NULL;
}

static size_t size_of(int type)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_VLAN: return 2;
	case RTE_FLOW_ITEM_TYPE_IPV4: return 20;
	case RTE_FLOW_ITEM_TYPE_IPV6: return 40;
	case RTE_FLOW_ITEM_TYPE_GTPU:
	case RTE_FLOW_ITEM_TYPE_GTP: return 8;
	case RTE_FLOW_ITEM_TYPE_L2TPV3OIP: return 4;
	default: return 0;
	}
}

static int refuse(struct rte_flow_error *error, int code, const char *why)
{
	error->type = RTE_FLOW_ERROR_TYPE_UNSPECIFIED;
	error->message = why;
	rte_errno = code;
	return -code;
}

static int read_rule(const struct test_nic *nic, const struct rte_flow_attr *attr, const struct rte_flow_item *items,
	const struct rte_flow_action *actions, struct rule *rule, struct rte_flow_error *error)
{
	memset(rule, 0, sizeof(*rule));
	if (!attr->ingress || actions[0].type != RTE_FLOW_ACTION_TYPE_QUEUE || actions[1].type != RTE_FLOW_ACTION_TYPE_END)
		return refuse(error, ENOTSUP, "no such action");
	rule->queue = ((const struct rte_flow_action_queue *)actions[0].conf)->index;
	if (rule->queue >= nic->queues)
		return refuse(error, EINVAL, "no such queue");
	for (; items->type != RTE_FLOW_ITEM_TYPE_END; items++) {
		struct item *item = &rule->item[rule->items];

		if (rule->items++ == ITEMS)
			return refuse(error, ENOTSUP, "pattern too long");
		if ((items->type == RTE_FLOW_ITEM_TYPE_GTPU || items->type == RTE_FLOW_ITEM_TYPE_GTP) && (int)items->type != nic->gtp)
			return refuse(error, ENOTSUP, "no such item");
		item->type = items->type;
		item->compares = items->spec != NULL;
		if (items->spec != NULL) {
			memcpy(item->spec, items->spec, size_of(items->type));
			memcpy(item->mask, items->mask, size_of(items->type));
		}
	}
	if (nic->room < 0)
		return refuse(error, ENOTSUP, "the test device has no rules");
	return 0;
}

int rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item items[],
	const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	const struct test_nic *nic = nic_of(port);
	int (*next)(uint16_t, const void *, const void *, const void *, void *);
	struct rule rule;

	if (nic != NULL)
		return read_rule(nic, attr, items, actions, &rule, error);
	*(void **)&next = dlsym(RTLD_NEXT, "rte_flow_validate");
	return next(port, attr, items, actions, error);
}

struct rte_flow *rte_flow_create(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item items[],
	const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct test_nic *nic = nic_of(port);
	struct rte_flow *(*next)(uint16_t, const void *, const void *, const void *, void *);
	struct rule rule;
	int used = 0;

	if (nic == NULL) {
		*(void **)&next = dlsym(RTLD_NEXT, "rte_flow_create");
		return next(port, attr, items, actions, error);
	}
	if (read_rule(nic, attr, items, actions, &rule, error) != 0)
		return NULL;
	for (size_t n = 0; n < RULES; n++) {
		const struct rule *other = &nic->rule[n];

		used += other->used;
		if (other->used && other->items == rule.items && memcmp(other->item, rule.item, sizeof(rule.item)) == 0) {
			refuse(error, EEXIST, "there is such a rule");
			return NULL;
		}
	}
	for (size_t n = 0; n < RULES && used < nic->room; n++) {
		if (!nic->rule[n].used) {
			nic->rule[n] = rule;
			nic->rule[n].used = 1;
			nic->made++;
			return (struct rte_flow *)&nic->rule[n];
		}
	}
	refuse(error, ENOSPC, "no room for the rule");
	return NULL;
}

int rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *error)
{
	struct test_nic *nic = nic_of(port);
	int (*next)(uint16_t, void *, void *);

	if (nic != NULL) {
		if (nic->clings)
			return refuse(error, EBUSY, "the rule is in use");
		((struct rule *)flow)->used = 0;
		nic->destroyed++;
		return 0;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "rte_flow_destroy");
	return next(port, flow, error);
}

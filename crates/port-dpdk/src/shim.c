/* What of DPDK is inline or a structure: bursts, the mempool over an arena, and what devices tell. The rest is called from
 * Rust (sys.rs), where each function and structure here is declared again. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_epoll.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>
#include <rte_version.h>

#include "offload.h"

#define BURST 64

/* ---- What DPDK logs: the first line of a failure is its reason. ---- */

static rte_spinlock_t log_lock = RTE_SPINLOCK_INITIALIZER;
static char log_line[512];

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	size_t keep = len < sizeof(log_line) ? len : sizeof(log_line) - 1;

	(void)cookie;
	rte_spinlock_lock(&log_lock);
	if (log_line[0] == 0) {
		memcpy(log_line, text, keep);
		log_line[keep] = 0;
	}
	rte_spinlock_unlock(&log_lock);
	return (ssize_t)len;
}

int weir_log_keep(void)
{
	cookie_io_functions_t io = { .write = log_write };
	FILE *stream = fopencookie(NULL, "w", io);

	if (stream == NULL)
		return -1;
	setvbuf(stream, NULL, _IOLBF, sizeof(log_line));
	return rte_openlog_stream(stream);
}

void weir_log_take(char *to, size_t room)
{
	rte_spinlock_lock(&log_lock);
	snprintf(to, room, "%s", log_line);
	log_line[0] = 0;
	rte_spinlock_unlock(&log_lock);
}

/* The layer waits for threads that it starts by looking at a flag: with a real-time priority, on the one CPU that all of them
 * have, it would wait for ever. */
void weir_thread_shares_cpu(void)
{
	struct sched_param none = { 0 };

	sched_setscheduler(0, SCHED_OTHER, &none);
}

/* The release that structures here are of, and the one that runs: 2211. */
uint32_t weir_built_for(void)
{
	return RTE_VER_YEAR * 100 + RTE_VER_MONTH;
}

uint32_t weir_runs_with(void)
{
	return rte_version_year() * 100 + rte_version_month();
}

int weir_errno(void)
{
	return rte_errno;
}

/* ---- The mempool: mbuf n is slot n of an arena, allocated from the start. ---- */

struct weir_pool {
	struct rte_mempool *mempool;
	char *base;
	uint32_t slots;
	uint32_t stride;
	uint32_t inverse;	/* of the stride in cache lines, modulo 2^32 */
	uint16_t shift;		/* from the slot to the mbuf's buffer */
	uint16_t room;		/* bytes of the mbuf's buffer */
	uint16_t slot_bytes;
	int ready;
	rte_spinlock_t lock;
	uint32_t strays;	/* freed by threads without a stock */
	struct rte_mbuf **stray;
	struct rte_mbuf **mbuf;	/* by slot */
};

/* Free slots that a port keeps for its driver; owned by one thread at a time. */
struct weir_stock {
	struct weir_pool *pool;
	int64_t out;		/* mbufs that the driver took more than it gave back */
	uint32_t count;
	struct rte_mbuf *mbuf[];
};

/* The stock of the port whose driver this thread is in. */
static __thread struct weir_stock *here;

static inline uint32_t slot_of(const struct weir_pool *pool, const struct rte_mbuf *m)
{
	uint64_t at = (uint64_t)((char *)m->buf_addr - pool->base);

	if (likely(m->buf_len == pool->room))
		at -= pool->shift;
	/* A multiple of the stride: exact by the inverse. */
	return (uint32_t)(at / RTE_CACHE_LINE_SIZE) * pool->inverse;
}

static int ops_alloc(struct rte_mempool *mp)
{
	mp->pool_data = calloc(1, sizeof(struct weir_pool));
	return mp->pool_data == NULL ? -ENOMEM : 0;
}

static void ops_free(struct rte_mempool *mp)
{
	struct weir_pool *pool = mp->pool_data;

	free(pool->mbuf);
	free(pool->stray);
	free(pool);
}

static int ops_enqueue(struct rte_mempool *mp, void *const *objects, unsigned int n)
{
	struct weir_pool *pool = mp->pool_data;
	struct weir_stock *stock = here;

	/* Mbufs start allocated: their slots are not the driver's. */
	if (unlikely(!pool->ready))
		return 0;
	if (likely(stock != NULL && stock->pool == pool)) {
		memcpy(stock->mbuf + stock->count, objects, n * sizeof(*objects));
		stock->count += n;
		stock->out -= n;
		return 0;
	}
	rte_spinlock_lock(&pool->lock);
	memcpy(pool->stray + pool->strays, objects, n * sizeof(*objects));
	__atomic_store_n(&pool->strays, pool->strays + n, __ATOMIC_RELAXED);
	rte_spinlock_unlock(&pool->lock);
	return 0;
}

static int ops_dequeue(struct rte_mempool *mp, void **objects, unsigned int n)
{
	struct weir_pool *pool = mp->pool_data;
	struct weir_stock *stock = here;

	if (unlikely(stock == NULL || stock->pool != pool || stock->count < n))
		return -ENOBUFS;
	stock->count -= n;
	stock->out += n;
	for (unsigned int i = 0; i < n; i++) {
		struct rte_mbuf *m = stock->mbuf[stock->count + i];

		/* It was sent from near the begin of its slot. */
		if (unlikely(m->buf_len != pool->room)) {
			m->buf_addr = (char *)m->buf_addr + pool->shift;
			m->buf_iova += pool->shift;
			m->buf_len = pool->room;
		}
		objects[i] = m;
	}
	return 0;
}

static unsigned int ops_count(const struct rte_mempool *mp)
{
	return here != NULL && here->pool == mp->pool_data ? here->count : 0;
}

static const struct rte_mempool_ops ops = {
	.name = "weir",
	.alloc = ops_alloc,
	.free = ops_free,
	.enqueue = ops_enqueue,
	.dequeue = ops_dequeue,
	.get_count = ops_count,
};

int weir_ops_register(void)
{
	int got = rte_mempool_register_ops(&ops);

	return got < 0 ? got : 0;
}

static void keep_mbuf(struct rte_mempool *mp, void *opaque, void *object, unsigned int n)
{
	struct weir_pool *pool = mp->pool_data;
	uint32_t slot = slot_of(pool, object);

	(void)opaque;
	(void)n;
	if (slot < pool->slots)
		pool->mbuf[slot] = object;
}

/* The mempool of an arena. Sets rte_errno when it returns NULL. */
struct weir_pool *weir_pool_new(const char *name, char *base, uint32_t slots, uint32_t stride, uint16_t slot_bytes,
	uint16_t headroom)
{
	uint16_t shift = headroom > RTE_PKTMBUF_HEADROOM ? headroom - RTE_PKTMBUF_HEADROOM : 0;
	struct rte_pktmbuf_extmem memory = {
		.buf_ptr = base + shift,
		.buf_iova = (rte_iova_t)(uintptr_t)(base + shift),
		.buf_len = (size_t)slots * stride,
		.elt_size = (uint16_t)stride,
	};
	uint32_t lines = stride / RTE_CACHE_LINE_SIZE, inverse = lines;
	struct rte_mempool *mempool;
	struct weir_pool *pool;

	if (stride > UINT16_MAX || stride % RTE_CACHE_LINE_SIZE != 0 || lines % 2 == 0) {
		rte_errno = EINVAL;
		return NULL;
	}
	/* Newton's method doubles the bits that are right: three of an odd number are at first. */
	for (int i = 0; i < 4; i++)
		inverse *= 2 - lines * inverse;
	/* Only this pool is of our kind: drivers make others for themselves. */
	rte_mbuf_set_user_mempool_ops("weir");
	mempool = rte_pktmbuf_pool_create_extbuf(name, slots, 0, 0, slot_bytes - shift, SOCKET_ID_ANY, &memory, 1);
	rte_mbuf_set_user_mempool_ops("ring_mp_mc");
	if (mempool == NULL)
		return NULL;
	pool = mempool->pool_data;
	pool->mempool = mempool;
	pool->base = base;
	pool->slots = slots;
	pool->stride = stride;
	pool->inverse = inverse;
	pool->shift = shift;
	pool->room = slot_bytes - shift;
	pool->slot_bytes = slot_bytes;
	rte_spinlock_init(&pool->lock);
	pool->mbuf = calloc(slots, sizeof(*pool->mbuf));
	pool->stray = calloc(slots, sizeof(*pool->stray));
	if (pool->mbuf == NULL || pool->stray == NULL) {
		rte_mempool_free(mempool);
		rte_errno = ENOMEM;
		return NULL;
	}
	rte_mempool_obj_iter(mempool, keep_mbuf, NULL);
	pool->ready = 1;
	return pool;
}

void weir_pool_free(struct weir_pool *pool)
{
	rte_mempool_free(pool->mempool);
}

struct rte_mempool *weir_pool_mempool(struct weir_pool *pool)
{
	return pool->mempool;
}

struct weir_stock *weir_stock_new(struct weir_pool *pool)
{
	struct weir_stock *stock = calloc(1, sizeof(*stock) + (size_t)pool->slots * sizeof(stock->mbuf[0]));

	if (stock != NULL)
		stock->pool = pool;
	return stock;
}

void weir_stock_free(struct weir_stock *stock)
{
	free(stock);
}

uint32_t weir_stock_count(const struct weir_stock *stock)
{
	return stock->count;
}

int64_t weir_stock_take_out(struct weir_stock *stock)
{
	int64_t out = stock->out;

	stock->out = 0;
	return out;
}

void weir_stock_put(struct weir_stock *stock, const uint32_t *slots, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		stock->mbuf[stock->count++] = stock->pool->mbuf[slots[i]];
}

uint32_t weir_stock_get(struct weir_stock *stock, uint32_t *slots, uint32_t n)
{
	uint32_t got = n < stock->count ? n : stock->count;

	for (uint32_t i = 0; i < got; i++)
		slots[i] = slot_of(stock->pool, stock->mbuf[--stock->count]);
	return got;
}

/* Moves what other threads freed to a stock. */
void weir_stock_gather(struct weir_stock *stock)
{
	struct weir_pool *pool = stock->pool;

	if (likely(__atomic_load_n(&pool->strays, __ATOMIC_RELAXED) == 0))
		return;
	rte_spinlock_lock(&pool->lock);
	memcpy(stock->mbuf + stock->count, pool->stray, pool->strays * sizeof(*pool->stray));
	stock->count += pool->strays;
	stock->out -= pool->strays;
	__atomic_store_n(&pool->strays, 0, __ATOMIC_RELAXED);
	rte_spinlock_unlock(&pool->lock);
}

/* ---- Bursts. ---- */

/* A packet: `len` bytes from `head` of a slot. */
struct weir_packet {
	uint32_t slot;
	uint16_t head;
	uint16_t len;
	uint8_t verdict;	/* received: on its UDP checksum */
	uint8_t l2_len;		/* to be sent: of the link header, where the device is to make the checksum; or 0 */
};

/* Receives up to `most` (64) packets; their mbufs leave the driver. `cut` counts packets of several buffers, dropped. */
uint16_t weir_rx(struct weir_stock *stock, uint16_t port, uint16_t queue, struct weir_packet *packets, uint16_t most,
	uint64_t *cut)
{
	const struct weir_pool *pool = stock->pool;
	struct rte_mbuf *mbufs[BURST];
	uint16_t got, n = 0;

	here = stock;
	got = rte_eth_rx_burst(port, queue, mbufs, most < BURST ? most : BURST);
	for (uint16_t i = 0; i < got; i++) {
		struct rte_mbuf *m = mbufs[i];
		uint32_t slot;

		if (unlikely(m->nb_segs != 1)) {
			rte_pktmbuf_free(m);
			*cut += 1;
			continue;
		}
		slot = slot_of(pool, m);
		packets[n].slot = slot;
		packets[n].head = (uint16_t)((char *)m->buf_addr - pool->base - (uint64_t)slot * pool->stride) + m->data_off;
		packets[n].len = m->data_len;
		packets[n].verdict = weir_verdict(m);
		n++;
	}
	here = NULL;
	stock->out -= n;
	return n;
}

/* Sends packets (64 at most); returns how many the driver accepted: their mbufs are the driver's. `made` counts those of them
 * whose checksum the device makes. */
uint16_t weir_tx(struct weir_stock *stock, uint16_t port, uint16_t queue, const struct weir_packet *packets, uint16_t n,
	uint64_t *made)
{
	const struct weir_pool *pool = stock->pool;
	struct rte_mbuf *mbufs[BURST];
	uint64_t by_device = 0;
	uint16_t sent;
	uint8_t left = 0;

	for (uint16_t i = 0; i < n; i++)
		rte_prefetch0(pool->mbuf[packets[i].slot]);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pool->mbuf[packets[i].slot];
		uint16_t from = pool->shift;

		mbufs[i] = m;
		if (unlikely(m->buf_len != pool->room || packets[i].head < pool->shift)) {
			char *slot = pool->base + (uint64_t)packets[i].slot * pool->stride;

			from = packets[i].head < pool->shift ? 0 : pool->shift;
			m->buf_addr = slot + from;
			m->buf_iova = (rte_iova_t)(uintptr_t)(slot + from);
			m->buf_len = from == 0 ? pool->slot_bytes : pool->room;
		}
		m->data_off = packets[i].head - from;
		m->data_len = packets[i].len;
		m->pkt_len = packets[i].len;
		m->ol_flags = RTE_MBUF_F_EXTERNAL;
		left |= packets[i].l2_len;
		if (unlikely(packets[i].l2_len != 0))
			weir_leave_sum(m, packets[i].l2_len);
	}
	here = stock;
	if (unlikely(left != 0))
		by_device = weir_prepare(port, queue, mbufs, n);
	sent = rte_eth_tx_burst(port, queue, mbufs, n);
	here = NULL;
	if (unlikely(by_device != 0))
		*made += (unsigned int)__builtin_popcountll(sent < 64 ? by_device & ((UINT64_C(1) << sent) - 1) : by_device);
	stock->out += sent;
	return sent;
}

/* Has the driver free what it has sent. */
void weir_tx_done(struct weir_stock *stock, uint16_t port, uint16_t queue)
{
	here = stock;
	rte_eth_tx_done_cleanup(port, queue, 0);
	here = NULL;
}

/* The same with a copy, for drivers that take mbufs of their own layout only: `packets` name slots to fill. */
uint16_t weir_rx_copy(char *base, uint32_t stride, uint16_t port, uint16_t queue, struct weir_packet *packets, uint16_t most,
	uint16_t room, uint64_t *cut)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t n = 0, got = rte_eth_rx_burst(port, queue, mbufs, most < BURST ? most : BURST);

	for (uint16_t i = 0; i < got; i++) {
		char *to = base + (uint64_t)packets[n].slot * stride + packets[n].head;
		const void *from;

		if (mbufs[i]->pkt_len > room) {
			*cut += 1;
		} else {
			from = rte_pktmbuf_read(mbufs[i], 0, mbufs[i]->pkt_len, to);
			if (from != to)
				memcpy(to, from, mbufs[i]->pkt_len);
			packets[n++].len = (uint16_t)mbufs[i]->pkt_len;
		}
		rte_pktmbuf_free(mbufs[i]);
	}
	return n;
}

uint16_t weir_tx_copy(struct rte_mempool *mempool, const char *base, uint32_t stride, uint16_t port, uint16_t queue,
	const struct weir_packet *packets, uint16_t n)
{
	struct rte_mbuf *mbufs[BURST];
	uint16_t sent;

	if (rte_pktmbuf_alloc_bulk(mempool, mbufs, n) != 0)
		return 0;
	for (uint16_t i = 0; i < n; i++) {
		char *to = rte_pktmbuf_append(mbufs[i], packets[i].len);

		if (to != NULL)
			memcpy(to, base + (uint64_t)packets[i].slot * stride + packets[i].head, packets[i].len);
	}
	sent = rte_eth_tx_burst(port, queue, mbufs, n);
	rte_pktmbuf_free_bulk(mbufs + sent, n - sent);
	return sent;
}

struct rte_mempool *weir_copy_pool_new(const char *name, uint32_t mbufs, uint16_t room)
{
	return rte_pktmbuf_pool_create(name, mbufs, 256, 0, room + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
}

/* ---- Devices. ---- */

struct weir_device {
	const char *driver;
	struct rte_device *device;
	uint16_t most_queues;
	uint16_t rx_ring;
	uint16_t tx_ring;
	uint8_t offloads;	/* wanted, then those the device has */
};

int weir_device_info(uint16_t port, struct weir_device *out)
{
	struct rte_eth_dev_info info;
	int failed = rte_eth_dev_info_get(port, &info);

	if (failed != 0)
		return failed;
	out->driver = info.driver_name;
	out->device = info.device;
	out->most_queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	return 0;
}

/* Sets up `queues` queues each way with rings of about the wanted size, which are set to what they are. `interrupts`: asks
 * the device for one of each receive queue. Some drivers take mbufs to receive into here already. */
int weir_device_set_up(struct weir_stock *stock, uint16_t port, uint16_t queues, struct rte_mempool *mempool, int interrupts,
	struct weir_device *out)
{
	struct rte_eth_conf conf = { .intr_conf.rxq = interrupts };
	struct rte_eth_dev_info info;
	int socket = rte_eth_dev_socket_id(port), failed = rte_eth_dev_info_get(port, &info);

	if (failed != 0)
		return failed;
	if (queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP) & info.flow_type_rss_offloads;
	}
	/* All mbufs of a queue are of one pool and have one reference. */
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	out->offloads = weir_offloads_ask(&info, out->offloads, &conf);
	failed = rte_eth_dev_configure(port, queues, queues, &conf);
	if (failed != 0 && out->offloads != 0) {
		out->offloads = 0;
		conf.rxmode.offloads = 0;
		conf.txmode.offloads &= RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
		failed = rte_eth_dev_configure(port, queues, queues, &conf);
	}
	if (failed == 0)
		failed = rte_eth_dev_adjust_nb_rx_tx_desc(port, &out->rx_ring, &out->tx_ring);
	here = stock;
	for (uint16_t queue = 0; queue < queues && failed == 0; queue++) {
		failed = rte_eth_rx_queue_setup(port, queue, out->rx_ring, socket, NULL, mempool);
		if (failed == 0)
			failed = rte_eth_tx_queue_setup(port, queue, out->tx_ring, socket, NULL);
	}
	here = NULL;
	return failed;
}

/* What interrupts a driver that waits; nothing else uses it. */
#define HURRY (SIGRTMAX - 2)

static void nothing(int signal)
{
	(void)signal;
}

/* Interrupts what this thread waits for after `ms`, and then again and again; 0: never. -EAGAIN: it would wait for ever. */
static int hurry_begin(timer_t *timer, sigset_t *before, uint32_t ms)
{
	struct sigaction action = { .sa_handler = nothing };	/* without SA_RESTART: calls end with EINTR */
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = HURRY };
	struct timespec after = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	struct itimerspec times = { .it_value = after, .it_interval = after };
	sigset_t hurry;

	event._sigev_un._tid = gettid();
	if (ms == 0)
		return 0;
	if (sigaction(HURRY, &action, NULL) != 0 || timer_create(CLOCK_MONOTONIC, &event, timer) != 0)
		return -EAGAIN;
	sigemptyset(&hurry);
	sigaddset(&hurry, HURRY);
	pthread_sigmask(SIG_UNBLOCK, &hurry, before);
	timer_settime(*timer, 0, &times, NULL);
	return 1;
}

static void hurry_end(int begun, timer_t timer, const sigset_t *before)
{
	if (begun <= 0)
		return;
	timer_delete(timer);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* The driver takes mbufs to receive into from the stock. A driver that waits for another process does so for `ms`; 0: as long
 * as it likes. `again`: it is stopped before. */
int weir_device_start(struct weir_stock *stock, uint16_t port, uint32_t ms, int again)
{
	timer_t timer = { 0 };
	sigset_t before;
	int begun, failed = 0;

	here = stock;
	if (again)
		failed = rte_eth_dev_stop(port);
	begun = hurry_begin(&timer, &before, ms);
	if (failed == 0 && begun < 0)
		failed = begun;
	if (failed == 0)
		failed = rte_eth_dev_start(port);
	hurry_end(begun, timer, &before);
	here = NULL;
	return failed;
}

/* Whether the device, which has started, splits frames among buffers: it counts them in whole kilobytes, say, and one of those
 * does not hold a frame of its MTU. */
int weir_device_splits(uint16_t port)
{
	struct rte_eth_rxq_info queue = { 0 };

	return rte_eth_rx_queue_info_get(port, 0, &queue) == 0 && queue.scattered_rx;
}

/* The driver frees all it has to the stock. */
int weir_device_close(struct weir_stock *stock, uint16_t port)
{
	struct rte_eth_dev_info info = { 0 };
	int failed;

	rte_eth_dev_info_get(port, &info);
	here = stock;
	rte_eth_dev_stop(port);
	failed = rte_eth_dev_close(port);
	if (info.device != NULL)
		failed = rte_dev_remove(info.device);
	here = NULL;
	return failed;
}

struct weir_losses {
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t rx_no_mbuf;
	uint64_t tx_errors;
};

int weir_device_losses(uint16_t port, struct weir_losses *out)
{
	struct rte_eth_stats stats;
	int failed = rte_eth_stats_get(port, &stats);

	if (failed == 0)
		*out = (struct weir_losses){ stats.imissed, stats.ierrors, stats.rx_nombuf, stats.oerrors };
	return failed;
}

int weir_device_is_up(uint16_t port)
{
	struct rte_eth_link link = { 0 };

	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/* ---- Interrupts of a receive queue. ---- */

/* A descriptor that is readable when the queue has interrupted, or a negative error: the device has no interrupts. */
int weir_interrupt_open(uint16_t port, uint16_t queue)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), failed;

	if (epoll < 0)
		return -errno;
	failed = rte_eth_dev_rx_intr_ctl_q(port, queue, epoll, RTE_INTR_EVENT_ADD, NULL);
	if (failed == 0)
		return epoll;
	close(epoll);
	return failed < 0 ? failed : -ENOTSUP;
}

void weir_interrupt_close(uint16_t port, uint16_t queue, int epoll)
{
	rte_eth_dev_rx_intr_ctl_q(port, queue, epoll, RTE_INTR_EVENT_DEL, NULL);
	close(epoll);
}

/* Forgets interrupts that have come; returns how many. */
int weir_interrupt_take(int epoll)
{
	struct rte_epoll_event event;

	return rte_epoll_wait(epoll, &event, 1, 0);
}

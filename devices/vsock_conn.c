// SPDX-License-Identifier: Apache-2.0
/* vsock_conn.c - connections come, are found, wait and go. Knows neither rings nor how bytes move. */
#include "virtio_vsock_internal.h"

#include "clock.h"
#include "util.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
	ACCEPT_MAX = 64, /* of one event */
	DIAL_MAX = 64,   /* tries of one event */
	PAUSE_MIN_MS = 1,
	PAUSE_MAX_MS = 50,
	PATIENCE_MS = 2000, /* with a host that has no room for a connection */
	PAUSE_NO_FD_MS = 100,
	LINGER_MS = 500, /* what the end of the machine waits for hosts that read slowly, all together */
};

/* ------------------------------------------------------------------------------------------- lists */

static void ring_init(struct vsock_link *l)
{
	l->prev = l->next = l;
}

static bool is_alone(const struct vsock_link *l)
{
	return l->next == l;
}

static void take_out(struct vsock_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	ring_init(l);
}

static void put_last(struct vsock_link *list, struct vsock_link *l)
{
	take_out(l);
	l->prev = list->prev;
	l->next = list;
	list->prev->next = l;
	list->prev = l;
}

static struct vsock_conn *first_of(const struct vsock_link *list)
{
	return is_alone(list) ? NULL : container_of(list->next, struct vsock_conn, in);
}

/* ------------------------------------------------------------------------------------------- table */

static struct vsock_conn **bucket(struct virtio_vsock *v, uint32_t host_port, uint32_t guest_port)
{
	uint64_t x = ((uint64_t)host_port << 32 | guest_port) ^ v->seed;

	x *= 0x9e3779b97f4a7c15ull;
	return &v->table[(x >> 40) % VSOCK_BUCKETS];
}

struct vsock_conn *vsock_find(const struct virtio_vsock *v, uint32_t host_port, uint32_t guest_port)
{
	struct vsock_conn *c = *bucket((struct virtio_vsock *)(uintptr_t)v, host_port, guest_port);

	while (c && (c->host_port != host_port || c->guest_port != guest_port))
		c = c->next;
	return c;
}

/* Much while few ask, so that all together have a bound: VSOCK_ROOM_ALL, and the least for each. */
static uint32_t choose_room(const struct virtio_vsock *v)
{
	uint64_t left = v->promised < VSOCK_ROOM_ALL ? VSOCK_ROOM_ALL - v->promised : 0;
	uint32_t room = VSOCK_ROOM_MAX;

	while (room > VSOCK_ROOM_MIN && room > left / 16)
		room /= 2;
	return room;
}

void vsock_enter(struct vsock_conn *c, uint32_t host_port, uint32_t guest_port)
{
	struct vsock_conn **at = bucket(c->v, host_port, guest_port);

	c->host_port = host_port;
	c->guest_port = guest_port;
	c->next = *at;
	*at = c;
	c->in_table = true;
	c->room = choose_room(c->v);
	c->v->promised += c->room;
}

static void leave_table(struct vsock_conn *c)
{
	struct vsock_conn **at = bucket(c->v, c->host_port, c->guest_port);

	if (!c->in_table)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->in_table = false;
}

/* ---------------------------------------------------------------------------------------- coming, going */

void vsock_conns_init(struct virtio_vsock *v)
{
	ring_init(&v->live);
	ring_init(&v->dialing);
	ring_init(&v->dead);
	ring_init(&v->turns);
	(void)!getrandom(&v->seed, sizeof(v->seed), 0);
	v->next_port = 1u << 30;
}

struct vsock_conn *vsock_new(struct virtio_vsock *v, enum vsock_state state, int fd)
{
	struct vsock_conn *c = v->count < VSOCK_CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (!c)
		return NULL;
	c->v = v;
	c->state = state;
	c->source = (struct event_source){.fd = fd, .fn = vsock_on_host, .ctx = c};
	ring_init(&c->in);
	ring_init(&c->turn);
	put_last(state == VSOCK_DIALING ? &v->dialing : &v->live, &c->in);
	v->count++;
	atomic_fetch_add_explicit(&v->host->counters.now, 1, memory_order_relaxed);
	return c;
}

static void die(struct vsock_conn *c)
{
	leave_table(c);
	take_out(&c->turn);
	vsock_drop_rest(c);
	vsock_close_host(c);
	c->v->promised -= c->room; /* not earlier: what is flushed takes memory */
	c->state = VSOCK_DEAD;
	c->debts = 0;
	put_last(&c->v->dead, &c->in);
	atomic_fetch_sub_explicit(&c->v->host->counters.now, 1, memory_order_relaxed);
	vsock_at(c->v, 0);
}

static void reap(struct virtio_vsock *v)
{
	struct vsock_link *next;

	for (struct vsock_link *l = v->dead.next; l != &v->dead; l = next) {
		next = l->next;
		free(container_of(l, struct vsock_conn, in));
		v->count--;
	}
	ring_init(&v->dead);
}

void vsock_leave(struct vsock_conn *c, bool flush)
{
	leave_table(c);
	take_out(&c->turn);
	c->debts = 0;
	if (!flush || !vsock_rest(c)) {
		die(c);
		return;
	}
	c->state = VSOCK_FLUSHING;
	vsock_settle(c);
}

void vsock_reset(struct vsock_conn *c)
{
	atomic_fetch_add_explicit(&c->v->host->counters.resets, 1, memory_order_relaxed);
	if (!c->in_table || vsock_owes(c, VSOCK_OWES_REQUEST)) { /* the guest knows nothing of it */
		die(c);
		return;
	}
	vsock_drop_rest(c);
	vsock_close_host(c);
	put_last(&c->v->live, &c->in);
	c->state = VSOCK_OPEN;
	c->debts = VSOCK_OWES_RST;
	vsock_settle(c);
}

void vsock_cut_all(struct virtio_vsock *v)
{
	struct vsock_link *next;

	for (struct vsock_link *l = v->live.next; l != &v->live; l = next) {
		struct vsock_conn *c = container_of(l, struct vsock_conn, in);
		next = l->next;
		if (c->state == VSOCK_FLUSHING)
			continue;
		if (c->in_table)
			atomic_store(&v->host->interrupted, true);
		vsock_leave(c, true);
	}
	for (struct vsock_conn *c; (c = first_of(&v->dialing));)
		vsock_leave(c, false);
	v->stray_from = v->stray_to;
	v->stalled = false;
}

/* ----------------------------------------------------------------------------------------- waiting */

static bool has_turn(const struct vsock_conn *c)
{
	return c->debts || (c->state == VSOCK_OPEN && c->readable && !c->ended && vsock_credit(c));
}

static uint32_t wanted(const struct vsock_conn *c)
{
	uint32_t events = vsock_rest(c) ? EPOLLOUT : 0;

	switch (c->state) {
	case VSOCK_GREETING:
		return EPOLLIN;
	case VSOCK_CALLING:
		return c->hung_up ? 0 : EPOLLHUP;
	case VSOCK_OPEN:
		if (vsock_owes(c, VSOCK_OWES_RST))
			return events;
		if (!c->readable && !c->ended && vsock_credit(c))
			events |= EPOLLIN;
		/* It comes unasked with any other, and again and again. */
		return events || c->hung_up ? events : EPOLLHUP;
	default:
		return events;
	}
}

void vsock_settle(struct vsock_conn *c)
{
	if (c->state == VSOCK_DEAD)
		return;
	if (has_turn(c) && is_alone(&c->turn))
		put_last(&c->v->turns, &c->turn);
	uint32_t events = c->source.fd < 0 ? 0 : wanted(c);
	if (events == c->waits)
		return;
	if (event_loop_set(c->v->loop, &c->source, events) == 0)
		c->waits = events;
	else
		vsock_reset(c); /* the host is out of memory */
}

void vsock_end_turn(struct vsock_conn *c)
{
	take_out(&c->turn);
}

void vsock_at(struct virtio_vsock *v, unsigned ms)
{
	const struct itimerspec when = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms ? ms % 1000 * 1000000L : 1}};

	if (v->timer_is_due)
		return;
	v->timer_is_due = ms == 0;
	timerfd_settime(v->timer.fd, 0, &when, NULL);
}

/* ---------------------------------------------------------------------------------- who wants in */

void vsock_listen(struct virtio_vsock *v, bool want)
{
	want = want && v->count < VSOCK_CONNS_MAX;
	if (want != v->listens && event_loop_set(v->loop, &v->listener, want ? EPOLLIN : 0) == 0)
		v->listens = want;
}

/* Out of descriptors: who connected waits, and is looked at again later. */
static void pause_listening(struct virtio_vsock *v, int error)
{
	vsock_listen(v, false);
	if (v->count < VSOCK_CONNS_MAX) {
		log_guest(v->host->log, &v->limit, LULL_LOG_WARN,
		          "vsock: cannot accept a connection: %s; raise the limit of open files", strerror(error));
		vsock_at(v, PAUSE_NO_FD_MS);
	}
}

static void accept_some(struct virtio_vsock *v)
{
	for (unsigned i = 0; i < ACCEPT_MAX && v->listens; i++) {
		int fd = v->count < VSOCK_CONNS_MAX ? vsock_host_accept(v->host) : -ENOBUFS;
		if (fd == -EAGAIN)
			return;
		struct vsock_conn *c = fd < 0 ? NULL : vsock_new(v, VSOCK_GREETING, fd);
		if (c)
			vsock_settle(c);
		else if (fd >= 0)
			close(fd);
		else if (fd != -ECONNABORTED && fd != -EINTR)
			pause_listening(v, -fd);
	}
}

void vsock_on_listener(void *ctx, uint32_t events)
{
	struct virtio_vsock *v = ctx;

	(void)events;
	pthread_mutex_lock(&v->dev.queues[VSOCK_RX].lock);
	accept_some(v);
	pthread_mutex_unlock(&v->dev.queues[VSOCK_RX].lock);
}

/* ------------------------------------------------------------------------------------------ the timer */

void vsock_dial(struct vsock_conn *c)
{
	c->give_up_ns = clock_ns() + PATIENCE_MS * UINT64_C(1000000);
	if (!c->v->pause_ms) {
		c->v->pause_ms = PAUSE_MIN_MS;
		vsock_at(c->v, PAUSE_MIN_MS);
	}
}

/* True: it waits no more. */
static bool dial_again(struct vsock_conn *c)
{
	int fd = vsock_host_connect(c->v->host, c->host_port);

	if (fd == -EAGAIN && clock_ns() < c->give_up_ns) {
		put_last(&c->v->dialing, &c->in);
		return false;
	}
	put_last(&c->v->live, &c->in);
	c->state = VSOCK_OPEN;
	vsock_dialed(c, fd);
	vsock_settle(c);
	return true;
}

static void dial_some(struct virtio_vsock *v)
{
	struct vsock_conn *c;
	bool moved = false;

	for (unsigned i = 0; i < DIAL_MAX && (c = first_of(&v->dialing)); i++)
		moved |= dial_again(c);
	/* A listener that takes some is asked again soon, one that takes none less and less often. */
	v->pause_ms = moved || !v->pause_ms        ? PAUSE_MIN_MS
	              : v->pause_ms < PAUSE_MAX_MS ? v->pause_ms * 2
	                                           : PAUSE_MAX_MS;
	if (first_of(&v->dialing))
		vsock_at(v, v->pause_ms);
	else
		v->pause_ms = 0;
}

void vsock_on_timer(void *ctx, uint32_t events)
{
	struct virtio_vsock *v = ctx;
	struct virtio_queue *q = &v->dev.queues[VSOCK_RX];
	uint64_t count;

	(void)events;
	(void)!read(v->timer.fd, &count, sizeof(count));
	pthread_mutex_lock(&q->lock);
	v->timer_is_due = false;
	reap(v);
	dial_some(v);
	if (q->live && !v->broken)
		vsock_listen(v, true);
	vsock_pump(v);
	pthread_mutex_unlock(&q->lock);
}

/* ------------------------------------------------------------------------------------------ the end */

/* What the guest sent before its end is still wanted. */
static void linger(struct vsock_conn *c, uint64_t until_ns)
{
	struct pollfd pfd = {.fd = c->source.fd, .events = POLLOUT};

	while (c->state == VSOCK_FLUSHING) {
		uint64_t now = clock_ns();
		if (now >= until_ns || poll(&pfd, 1, (int)((until_ns - now) / 1000000)) < 1)
			return;
		vsock_flush(c);
	}
}

void vsock_destroy_all(struct virtio_vsock *v)
{
	uint64_t until_ns = clock_ns() + LINGER_MS * UINT64_C(1000000);

	vsock_cut_all(v);
	for (struct vsock_conn *c; (c = first_of(&v->live));) {
		linger(c, until_ns);
		if (c->state != VSOCK_DEAD)
			die(c);
	}
	reap(v);
}

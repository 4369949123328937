/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake.pml - vmm/wake.c and the loop around it in Promela: one owner (the vCPU's thread), two posters, the futex, and
 * the kick that is a signal whose handler sets immediate_exit. tests/model/run.sh checks every interleaving.
 *
 *  - No deadlock: an owner that is asleep or in the guest, with work published and no wake under way, is a state that
 *    nobody leaves, which the search reports as an invalid end state.
 *  - Every published piece of work is eventually consumed, with weak fairness (each thread gets to run).
 *  - Each sleep is ended by at most one futex wake, and each entry by at most one signal.
 *
 * Each atomic operation, system call and plain access of the C is one step here. The BROKEN_ variants make the mistakes
 * that the protocol exists to avoid; the search must find each of them.
 */
#ifndef POSTS
#define POSTS 2 /* by each of the two posters */
#endif

mtype = { looking, asleep, in_guest };

/* struct wake's word: read and swapped in one step only */
byte count;
mtype state = looking;

/* the futex and the vCPU as the kernel sees them */
bool queued;         /* the owner is on the futex's queue */
bool running;        /* the owner is inside KVM_RUN */
bool signal_pending; /* sent and not yet delivered */
bool immediate_exit; /* of struct kvm_run */

byte work;           /* published, not consumed yet */
byte consumed;
bool may_wake, may_kick; /* this sleep or entry has not yet been paid for */

#define done (consumed == 2 * POSTS)

#define SWAP(old_count, old_state, new_count, new_state, ok)                                                           \
	atomic {                                                                                                       \
		if                                                                                                     \
		:: count == old_count && state == old_state ->                                                         \
			count = new_count; state = new_state; ok = true                                                \
		:: else -> ok = false                                                                                  \
		fi                                                                                                     \
	}

#define LOOK atomic { consumed = consumed + work; found = work > 0; work = 0 }
#define TICKET atomic { state = looking; ticket = count }

active proctype owner()
{
	byte ticket;
	bool found, ok, deadline;

	do
	:: done -> break
	:: else ->
#ifdef BROKEN_ORDER
		LOOK;
		TICKET;
#else
		TICKET;                                         /* (1) */
		LOOK;                                           /* (2) */
#endif
		if
		:: found -> skip
		:: else ->                                      /* (3) */
			if
			:: goto block
			:: goto enter
			fi
		fi;
		goto next;

block:
		/* wake_block(): with a deadline or without, so a lost wakeup cannot hide behind one */
		if
		:: deadline = true
		:: deadline = false
		fi;
		atomic { SWAP(ticket, looking, ticket, asleep, ok); may_wake = (ok -> true : may_wake) };
		if
		:: !ok -> goto next
		:: else
		fi;
wait:
		atomic { queued = (count == ticket && state == asleep) };       /* FUTEX_WAIT compares */
		if
		:: !queued -> ok = true                                         /* woken, or EAGAIN */
		:: deadline -> queued = false; ok = false                       /* ETIMEDOUT */
		:: signal_pending -> queued = false; ok = false                 /* EINTR */
		fi;
		if
		:: atomic { !(count == ticket && state == asleep) -> goto next }
		:: atomic { else -> skip }
		fi;
		if
		:: ok -> goto wait                                              /* a wake meant for an earlier sleep */
		:: else
		fi;
		atomic { SWAP(ticket, asleep, ticket, looking, ok); may_wake = (ok -> false : may_wake) };
		goto next;

enter:
#ifndef BROKEN_CLEAR
		immediate_exit = false;
#endif
		atomic { SWAP(ticket, looking, ticket, in_guest, ok); may_kick = (ok -> true : may_kick) };
		if
		:: !ok -> goto next
		:: else
		fi;
#ifdef BROKEN_CLEAR
		immediate_exit = false; /* may wipe out a kick meant for the entry that comes now */
#endif
		running = true;
		if
		:: true -> deadline = true                                      /* a guest that exits by itself */
		:: true -> deadline = false
		fi;
		if
		:: immediate_exit || signal_pending -> running = false
		:: deadline -> running = false
		fi;

next:		skip
	od
}

/* The handler. Delivery may be late; inside KVM_RUN and FUTEX_WAIT a pending signal ends the call first. */
active proctype handler()
{
end:	do
	:: atomic { signal_pending && !running && !queued -> signal_pending = false; immediate_exit = true }
	od
}

active [2] proctype poster()
{
	byte i, old_count;
	mtype old_state;
	bool ok;

	for (i : 1 .. POSTS) {
#ifndef BROKEN_POST
		work++;                                         /* (a) */
#endif
		ok = false;                                     /* (b): wake_post() */
		do
		:: ok -> break
		:: else ->
			atomic { old_count = count; old_state = state };
			atomic {
				SWAP(old_count, old_state, old_count + 1, looking, ok);
				if
				:: ok && old_state == asleep -> assert(may_wake); may_wake = false
				:: ok && old_state == in_guest -> assert(may_kick); may_kick = false
				:: else
				fi
			}
		od;
		if
		:: old_state == asleep -> queued = false             /* FUTEX_WAKE */
		:: old_state == in_guest -> signal_pending = true   /* kick */
		:: else
		fi;
#ifdef BROKEN_POST
		work++;
#endif
	}
}

ltl all_work_is_consumed { [] (work > 0 -> <> (work == 0)) }

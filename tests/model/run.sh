#!/bin/sh
# Verifies the wake protocol with SPIN: the model must hold in every interleaving, and each deliberately broken variant
# of it must fail, or the model would prove nothing. TAP on stdout.
set -u

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work" || exit 1

n=0
failed=0
result() { # result RC NAME [OUTPUT]
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		failed=1
		[ -z "${3:-}" ] || sed 's/^/# /' "$3"
	fi
}

# Searches all states; $1 is safety or liveness, $2 a BROKEN_ variant or nothing. Succeeds when the search is complete
# and has found nothing; "errors: N" is what pan says in the end.
search() {
	rm -f pan.* pan
	# shellcheck disable=SC2086 # an empty variant is no argument
	spin ${2:+-D$2} -a "$here/wake.pml" >out 2>&1 || return 2
	case $1 in
	safety)
		gcc -O2 -w -DSAFETY -DNOCLAIM -o pan pan.c >>out 2>&1 || return 2
		./pan -m100000 >>out 2>&1
		;;
	liveness)
		gcc -O2 -w -DNFAIR=3 -o pan pan.c >>out 2>&1 || return 2
		./pan -a -f -m1000000 >>out 2>&1
		;;
	esac
	grep -q 'Search not completed\|max search depth too small' out && ! grep -q 'errors: [1-9]' out && return 2
	grep -q 'errors: 0' out && return 0
	grep -q 'errors: [1-9]' out && return 1
	return 2
}

search safety
result $? "no state in which work waits and nobody wakes; one wake per sleep, one signal per entry" out
search liveness
result $? "published work is consumed in the end, with weak fairness" out
for broken in BROKEN_ORDER:"looking for work before the ticket" BROKEN_POST:"posting before publishing" \
	BROKEN_CLEAR:"clearing immediate_exit after the entry is announced"; do
	for kind in safety liveness; do
		search $kind "${broken%%:*}"
		[ $? = 1 ]
		result $? "found by the $kind search: ${broken#*:}" out
	done
done
echo "1..$n"
exit $failed

#!/bin/sh
# Talks, then waits; ends at once when asked to.
echo "first line of $LOOPCTL_REF"
i=1
while [ "$i" -le 300 ]; do echo "line $i"; i=$((i + 1)); done
# Output that the terminal has not read yet is lost when a session leader ends: a kernel's doing, so we stay a moment.
trap 'echo "last words of $LOOPCTL_REF"; sleep 0.3; exit 0' TERM
echo ready
while :; do sleep 1000 & wait $!; done

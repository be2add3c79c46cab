#!/bin/sh
# Talks, then waits; ends at once when asked to.
echo "first line of $LOOPCTL_REF"
i=1
while [ "$i" -le 300 ]; do echo "line $i"; i=$((i + 1)); done
trap 'echo "last words of $LOOPCTL_REF"; exit 0' TERM
echo ready
while :; do sleep 1000 & wait $!; done

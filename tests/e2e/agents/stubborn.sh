#!/bin/sh
# Ignores every polite request.
trap '' TERM HUP INT
echo ready
while :; do sleep 1000; done

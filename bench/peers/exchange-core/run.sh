#!/bin/sh
# run.sh OUT FLOW (direct|pipeline) (risk|no-risk) [WARM_UP_PASSES PASSES]: plays a flow into
# exchange-core. OUT is where Maven built the player; without a flow it is built there.
#
# The packages that are opened are those that its Chronicle libraries reach into.
set -eu
out=$1
if [ $# -eq 1 ]; then
    pom=$(dirname "$0")/pom.xml
    exec mvn -B -q -ntp -f "$pom" -Dout="$out" process-classes
fi
shift
java -Xms4g -Xmx4g -XX:+UseParallelGC \
    --add-opens=java.base/java.lang=ALL-UNNAMED \
    --add-opens=java.base/java.lang.reflect=ALL-UNNAMED \
    --add-opens=java.base/java.io=ALL-UNNAMED \
    --add-opens=java.base/java.nio=ALL-UNNAMED \
    --add-opens=java.base/java.util=ALL-UNNAMED \
    --add-opens=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-exports=java.base/sun.nio.ch=ALL-UNNAMED \
    --add-exports=java.base/jdk.internal.ref=ALL-UNNAMED \
    --add-exports=java.base/jdk.internal.misc=ALL-UNNAMED \
    -classpath "$out/classes:$(cat "$out/classpath")" peer.Main "$@" 2>"$out/errors" || {
    cat "$out/errors" >&2
    exit 1
}

#!/bin/sh
# Makes what a cluster needs to know each other: an authority, certificates, tokens, passwords. Files that exist stay.
#
#   magnetar-secrets FOLDER HOST...
#
# The hosts are all names and addresses by which programs and clients reach the servers. FOLDER/magnetar is for
# Magnetar's programs. The other folders are what one program of others may read: zookeeper, redis, postgres, prometheus;
# functions is for users' code.
# For evaluation and for clusters without an authority of their own. Keep FOLDER/magnetar/authority.key.pem elsewhere afterwards.
set -euf
umask 077

root=$1
shift
hosts=""
for host in "$@"; do hosts="$hosts --host $host"; done

main=$root/magnetar
mkdir -p "$main"
cd "$main"

make_certificate() { # NAME KIND ARGUMENTS...
    name=$1 kind=$2
    shift 2
    [ -e "$name.pem" ] && return
    magnetar certificates "$kind" --directory . --days 365 "$@" "$name" >/dev/null
    mv "$name.cert.pem" "$name.pem"
    mv "$name.key.pem" "$name.key"
}

if [ ! -e ca.pem ]; then
    magnetar certificates authority --directory . >/dev/null
    cp authority.cert.pem ca.pem
fi
# shellcheck disable=SC2086 - each host is a word of its own, and no pattern of files
make_certificate server server $hosts
make_certificate magnetar-broker client --organizational-unit 0:broker
make_certificate superuser client

[ -e token.key ] || magnetar tokens create-secret-key --output token.key
for role in superuser magnetar-broker magnetar-functions magnetar-gateway magnetar-proxy metrics; do
    [ -e "$role.token" ] || magnetar tokens create --secret-key "file://$main/token.key" --subject "$role" >"$role.token"
done

for name in internal-token session.key spark.token redis.password postgres.password grafana.password; do
    [ -e "$name" ] || head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$name"
done

{
    echo "spark.connect.authenticate.token $(cat spark.token)"
    echo "spark.authenticate true"
} >spark.conf

# Copies for the programs of others, whose users differ from image to image.
umask 022
mkdir -p "$root/zookeeper" "$root/redis" "$root/postgres" "$root/prometheus" "$root/functions"
cat ca.pem >"$root/functions/ca.pem"
cat server.key server.pem >"$root/zookeeper/server.pem"
cat ca.pem >"$root/zookeeper/ca.pem"
printf 'requirepass %s\n' "$(cat redis.password)" >"$root/redis/redis.conf"
cat postgres.password >"$root/postgres/password"
cat ca.pem >"$root/prometheus/ca.pem"
cat metrics.token >"$root/prometheus/metrics_token"
cat grafana.password >"$root/prometheus/grafana_password"

# Magnetar's programs have the user 10001 in the image.
if [ "$(id -u)" = 0 ]; then chown -R 10001:10001 "$main"; fi

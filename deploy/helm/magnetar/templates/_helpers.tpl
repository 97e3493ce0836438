{{/* Name of the release's objects. */}}
{{- define "magnetar.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "magnetar.cluster" -}}
{{ .Values.clusterName | default .Release.Name }}
{{- end }}

{{- define "magnetar.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{ include "magnetar.selector" . }}
{{- end }}

{{- define "magnetar.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "magnetar.image" -}}
{{- $image := index .root.Values.images .name -}}
image: {{ printf "%s:%s" $image.repository ($image.tag | default .root.Chart.AppVersion | toString) | quote }}
imagePullPolicy: {{ $image.pullPolicy | default .root.Values.defaultPullPolicy }}
{{- end }}

{{/* DNS domain of the pods of a component. */}}
{{- define "magnetar.domain" -}}
{{ include "magnetar.fullname" .root }}-{{ .component }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.clusterDomain }}
{{- end }}

{{- define "magnetar.metadataUrl" -}}
{{- if .Values.pulsar_metadata.metadataUrl -}}
{{ .Values.pulsar_metadata.metadataUrl }}
{{- else if .Values.components.zookeeper -}}
{{- $domain := include "magnetar.domain" (dict "root" . "component" "zookeeper") -}}
{{- $port := ternary .Values.zookeeper.ports.clientTls .Values.zookeeper.ports.client .Values.tls.enabled | int -}}
{{- $hosts := list -}}
{{- range $i := until (int .Values.zookeeper.replicaCount) -}}
{{- $hosts = append $hosts (printf "%s-zookeeper-%d.%s:%d" (include "magnetar.fullname" $) $i $domain $port) -}}
{{- end -}}
zk:{{ join "," $hosts }}
{{- else -}}
{{ fail "components.zookeeper is false: set pulsar_metadata.metadataUrl" }}
{{- end -}}
{{- end }}

{{/* Means of access to the metadata store, for every program. */}}
{{- define "magnetar.metadataEnvironment" -}}
MAGNETAR_LOG_FORMAT: json
MAGNETAR_METADATA_URL: {{ include "magnetar.metadataUrl" . | quote }}
{{- if .Values.tls.enabled }}
{{- if hasPrefix "zk:" (include "magnetar.metadataUrl" .) }}
MAGNETAR_METADATA_TLS_ENABLED: "true"
{{- end }}
MAGNETAR_METADATA_TLS_TRUST_CERTS_FILE_PATH: /run/secrets/magnetar/ca.pem
MAGNETAR_METADATA_TLS_CERTIFICATE_FILE_PATH: /run/secrets/magnetar/magnetar-broker.pem
MAGNETAR_METADATA_TLS_KEY_FILE_PATH: /run/secrets/magnetar/magnetar-broker.key
{{- end }}
{{- if .Values.insecureAnywhere }}
MAGNETAR_INSECURE_ANYWHERE: "true"
{{- end }}
{{- end }}

{{/* Settings of brokers, proxies, functions workers and gateways: who calls, and their own credentials. */}}
{{- define "magnetar.callerEnvironment" -}}
{{- $values := .root.Values -}}
{{- if $values.auth.authentication.enabled }}
MAGNETAR_AUTHENTICATION_ENABLED: "true"
MAGNETAR_AUTHENTICATION_PROVIDERS: {{ ternary "token,tls" "token" $values.tls.enabled }}
{{- if $values.auth.authentication.jwt.usingSecretKey }}
MAGNETAR_TOKEN_SECRET_KEY: file:///run/secrets/magnetar/token.key
{{- else }}
MAGNETAR_TOKEN_PUBLIC_KEY: file:///run/secrets/magnetar/token-public.key
{{- end }}
MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PLUGIN: token
MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PARAMETERS: file:///run/secrets/magnetar/{{ .role }}.token
MAGNETAR_AUTHENTICATE_METRICS_ENDPOINT: "true"
{{- if $values.auth.authorization.enabled }}
MAGNETAR_AUTHORIZATION_ENABLED: "true"
MAGNETAR_SUPER_USER_ROLES: {{ values $values.auth.superUsers | compact | uniq | sortAlpha | join "," | quote }}
{{- if $values.auth.useProxyRoles }}
MAGNETAR_PROXY_ROLES: {{ printf "%s,%s" $values.auth.superUsers.gateway $values.auth.superUsers.proxy | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- if $values.tls.enabled }}
MAGNETAR_TLS_CERTIFICATE_FILE_PATH: /run/secrets/magnetar/server.pem
MAGNETAR_TLS_KEY_FILE_PATH: /run/secrets/magnetar/server.key
MAGNETAR_TLS_TRUST_CERTS_FILE_PATH: /run/secrets/magnetar/ca.pem
MAGNETAR_BROKER_CLIENT_TLS_ENABLED: "true"
MAGNETAR_BROKER_CLIENT_TRUST_CERTS_FILE_PATH: {{ .trusted | default "/run/secrets/magnetar/ca.pem" }}
{{- end }}
{{- end }}

{{/* Settings of the clients of bookies: brokers and analyses. */}}
{{- define "magnetar.ledgerEnvironment" -}}
{{- if .Values.tls.enabled }}
MAGNETAR_BOOKKEEPER_TLS_PROVIDER_FACTORY_CLASS: org.apache.bookkeeper.tls.TLSContextFactory
MAGNETAR_BOOKKEEPER_TLS_TRUST_CERTS_FILE_PATH: /run/secrets/magnetar/ca.pem
MAGNETAR_BOOKKEEPER_TLS_CLIENT_AUTHENTICATION: "true"
MAGNETAR_BOOKKEEPER_TLS_CERTIFICATE_FILE_PATH: /run/secrets/magnetar/magnetar-broker.pem
MAGNETAR_BOOKKEEPER_TLS_KEY_FILE_PATH: /run/secrets/magnetar/magnetar-broker.key
{{- end }}
{{- end }}

{{/* configData: names of Pulsar and BookKeeper become variables; those of a JVM have no meaning here. */}}
{{- define "magnetar.configData" -}}
{{- $prefix := .prefix -}}
{{- range $name, $value := .data }}
{{- if hasPrefix "MAGNETAR_" $name }}
{{ $name }}: {{ $value | toString | quote }}
{{- else if not (or (hasSuffix "_MEM" $name) (hasSuffix "_GC" $name)) }}
{{ printf "%s%s" $prefix (trimPrefix "PULSAR_PREFIX_" $name | snakecase | upper) }}: {{ $value | toString | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "magnetar.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
fsGroup: {{ .user }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "magnetar.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Placement of a component's pods. */}}
{{- define "magnetar.placement" -}}
{{- $terms := .values.affinity -}}
{{- if $terms.anti_affinity }}
affinity:
  podAntiAffinity:
    {{- if eq $terms.type "requiredDuringSchedulingIgnoredDuringExecution" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: {{ $terms.anti_affinity_topology_key }}
        labelSelector:
          matchLabels: {{- include "magnetar.selector" . | nindent 12 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: {{ $terms.anti_affinity_topology_key }}
          labelSelector:
            matchLabels: {{- include "magnetar.selector" . | nindent 14 }}
    {{- end }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: {{ .values.gracePeriod }}
serviceAccountName: {{ ternary (include "magnetar.fullname" .root) "default" .root.Values.rbac.serviceAccount.create }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- end }}

{{/* Waits until the metadata store accepts connections; the programs themselves try again as well. */}}
{{- define "magnetar.waitForMetadata" -}}
- name: wait-metadata
  {{- include "magnetar.image" (dict "root" . "name" "magnetar") | nindent 2 }}
  command:
    - python
    - -c
    - |
      import os, re, socket, time
      hosts = re.findall(r"([^/:,]+):(\d+)", os.environ["MAGNETAR_METADATA_URL"].partition(":")[2])
      while True:
          for host, port in hosts:
              try:
                  socket.create_connection((host, int(port)), 3).close()
                  raise SystemExit(0)
              except OSError as error:
                  print(host, port, error, flush=True)
          time.sleep(2)
  env:
    - {name: MAGNETAR_METADATA_URL, value: {{ include "magnetar.metadataUrl" . | quote }}}
  resources:
    requests: {memory: 32Mi, cpu: 10m}
  securityContext: {{- include "magnetar.containerSecurity" . | nindent 4 }}
{{- end }}

{{/* The volume of secrets: only the files that the component needs. */}}
{{- define "magnetar.secretVolume" -}}
- name: secrets
  secret:
    secretName: {{ .root.Values.secrets.magnetar }}
    defaultMode: 0440
    items:
      {{- range .files }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}

{{/* True where a program needs files of the Secret. */}}
{{- define "magnetar.hasSecrets" -}}
{{- if or .Values.tls.enabled .Values.auth.authentication.enabled }}true{{ end -}}
{{- end }}

{{/* Files of the Secret for TLS, and for callers. */}}
{{- define "magnetar.tlsFiles" -}}
{{- if .Values.tls.enabled }}ca.pem,server.pem,server.key,magnetar-broker.pem,magnetar-broker.key{{ end }}
{{- end }}
{{- define "magnetar.authFiles" -}}
{{- if .root.Values.auth.authentication.enabled }}{{ ternary "token.key" "token-public.key" .root.Values.auth.authentication.jwt.usingSecretKey }},{{ .role }}.token{{ end }}
{{- end }}

{{/* A probe of a page of a broker, a bookie, a proxy or a functions worker. */}}
{{- define "magnetar.probes" -}}
startupProbe:
  httpGet: {path: {{ .startupPath | default "/ready" }}, port: {{ .port }}}
  periodSeconds: 3
  failureThreshold: {{ .startup }}
readinessProbe:
  httpGet: {path: /ready, port: {{ .port }}}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  # A page that needs nothing but the event loop: a metadata store that is away is no reason to restart.
  httpGet: {path: /live, port: {{ .port }}}
  periodSeconds: 15
  timeoutSeconds: 10
  failureThreshold: 4
{{- end }}

{{- define "magnetar.claim" -}}
- metadata: {name: {{ .name }}}
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .volume.storageClassName }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources: {requests: {storage: {{ .volume.size }}}}
{{- end }}

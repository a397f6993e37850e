{{- define "nra.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of namespaced objects. 52 characters leave room for suffixes. */}}
{{- define "nra.fullname" -}}
{{- $name := include "nra.name" . }}
{{- $whole := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $whole | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* The name of cluster-scoped objects. It does not contain the release's name, so that two releases conflict. */}}
{{- define "nra.clusterName" -}}
node-resource-advertiser
{{- end }}

{{- define "nra.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "nra.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- /* The digest of the image that the chart was released with. hack/release.sh writes it. */}}
{{- define "nra.releasedDigest" -}}
{{- index (.Chart.Annotations | default dict) "noderesource.dev/image-digest" | default "" }}
{{- end }}

{{- /* A tag alongside a digest is informational. */}}
{{- define "nra.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry }}
{{- printf "%s/%s:%s" $registry .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- with .Values.image.digest | default (include "nra.releasedDigest" .) }}{{ if ne . "none" }}@{{ . }}{{ end }}{{ end }}
{{- end }}

{{- /* The seconds of a duration, such as 1m30s; a number is in seconds. */}}
{{- define "nra.seconds" -}}
{{- $seconds := 0 }}
{{- range $unit, $factor := dict "h" 3600 "m" 60 "s" 1 }}
{{- with regexFind (printf "[0-9]+%s" $unit) (toString $) }}
{{- $seconds = add $seconds (mul (trimSuffix $unit . | atoi) $factor) }}
{{- end }}
{{- end }}
{{- regexMatch "^[0-9]+$" (toString .) | ternary (toString . | atoi) $seconds }}
{{- end }}

{{- /* The number that a quantity stands for, such as 32Mi. */}}
{{- define "nra.number" -}}
{{- $units := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
  "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 }}
{{- $unit := regexFind "([numkMGTPE]|[KMGTPE]i)$" (toString .) }}
{{- mulf (trimSuffix $unit (toString .) | float64) (index $units $unit | default 1.0) }}
{{- end }}

{{- /* The namespace of namespaced objects. */}}
{{- define "nra.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- /* Labels that never change during a release's life, because a selector must not. */}}
{{- define "nra.selectorLabels" -}}
app.kubernetes.io/name: {{ include "nra.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "nra.labels" -}}
{{- include "nra.labelsWith" (list . "" dict) }}
{{- end }}

{{- /* The labels of an object: (list root component labels). Merged, because some tools reject duplicate keys. */}}
{{- define "nra.labelsWith" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}
{{- $own := include "nra.selectorLabels" $root | fromYaml }}
{{- if $component }}{{ $_ := set $own "app.kubernetes.io/component" $component }}{{ end }}
{{- $chart := dict "app.kubernetes.io/version" (toString $root.Chart.AppVersion)
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") }}
{{- merge $own (deepCopy (index . 2 | default dict)) (deepCopy ($root.Values.commonLabels | default dict)) $chart | toYaml }}
{{- end }}

{{- /* The annotations of an object: (list root own). Empty if there are none. */}}
{{- define "nra.annotations" -}}
{{- with merge (dict) (index . 1 | default dict) ((index . 0).Values.commonAnnotations | default dict) }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* "true" if an object of a kind that the cluster may lack is rendered: (list root values apiVersion kind path) */}}
{{- define "nra.renders" -}}
{{- $root := index . 0 }}{{ $values := index . 1 }}{{ $kind := printf "%s/%s" (index . 2) (index . 3) }}
{{- if $values.enabled }}
{{- if or (eq $values.renderMode "alwaysRender") ($root.Capabilities.APIVersions.Has $kind) -}}
true
{{- else if eq $values.renderMode "failIfMissing" }}
{{- fail (printf "%s.enabled is true, but the cluster has no %s: install Prometheus Operator first, or set %s.renderMode to skipIfMissing or alwaysRender" (index . 4) $kind (index . 4)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* How Prometheus scrapes a pod: (list root relabelings). */}}
{{- define "nra.endpoint" -}}
{{- with (index . 0).Values.serviceMonitor -}}
port: http
path: /metrics
honorLabels: {{ .honorLabels }}
{{- with .interval }}
interval: {{ . }}
{{- end }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with concat (index $ 1) (.relabelings | default list) }}
relabelings: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* "true" if Helm is connected to the cluster, so that it runs hooks. Where a tool only renders, and might apply them as
ordinary objects, a lookup finds nothing. Every cluster has this role, and validate.yaml reads roles anyway. */}}
{{- define "nra.connected" -}}
{{- if lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "view" -}}
true
{{- end }}
{{- end }}

{{- /* "true" if the prune Job is rendered: if Helm runs it as a hook. */}}
{{- define "nra.prunes" -}}
{{- if or (eq (toString .Values.prune.enabled) "true") (and (eq (toString .Values.prune.enabled) "auto") (include "nra.connected" .)) -}}
true
{{- end }}
{{- end }}

{{- /* "true" if the pod of `helm test` is rendered, which asks the Service. */}}
{{- define "nra.tested" -}}
{{- if and .Values.service.enabled .Values.replicaCount (include "nra.connected" .) -}}
true
{{- end }}
{{- end }}

{{- /* The labels that select the pod of `helm test`, and no selector of the controller's pods. */}}
{{- define "nra.testLabels" -}}
app.kubernetes.io/name: {{ include "nra.name" . | trunc 58 | trimSuffix "-" }}-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The states of the protection that `helm test` accepts; empty if any. */}}
{{- define "nra.expectedProtection" -}}
{{- $kind := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}
{{- $auto := ternary (ternary "present,static" "not_served,static" $kind) "" .Values.protect.enabled }}
{{- index (dict "none" "none" "static" "static" "api" "present" "auto" $auto) .Values.controller.protection }}
{{- end }}

{{- /* What the Deployment's pods and the prune Job's have in common. */}}
{{- define "nra.podSpec" -}}
serviceAccountName: {{ include "nra.serviceAccountName" . | quote }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with $secrets | uniq }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
volumes: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A probe without `enabled`. The httpGet of values.yaml applies unless the values set another handler. */}}
{{- define "nra.probe" -}}
{{- $others := or (hasKey . "exec") (hasKey . "grpc") (hasKey . "tcpSocket") }}
{{- toYaml (ternary (omit . "enabled" "httpGet") (omit . "enabled") $others) }}
{{- end }}

{{- /* What the containers of the Deployment's pods and of the prune Job's have in common. */}}
{{- define "nra.container" -}}
image: {{ include "nra.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env: {{- include "nra.env" . | nindent 2 }}
resources: {{ toYaml .Values.resources | nindent 2 }}
securityContext: {{ toYaml .Values.securityContext | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
{{- with .Values.extraVolumeMounts }}
volumeMounts: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "nra.env" -}}
- name: NRA_BIND_ADDRESS
  value: {{ printf "%s:%v" .Values.controller.bindAddress .Values.controller.port | quote }}
- name: NRA_MAX_CONCURRENT_PATCHES
  value: {{ .Values.controller.maxConcurrentPatches | quote }}
- name: NRA_MAX_ROLLOUT_RATE
  value: {{ .Values.controller.maxRolloutRate | quote }}
- name: NRA_REQUEST_TIMEOUT
  value: {{ .Values.controller.requestTimeout | quote }}
- name: NRA_MASS_WITHDRAWAL_DELAY
  value: {{ .Values.controller.massWithdrawalDelay | quote }}
{{- with .Values.controller.maxRulesMemory }}
- name: NRA_MAX_RULES_MEMORY
  value: {{ . | quote }}
{{- end }}
- name: NRA_LOG_LEVEL
  value: {{ .Values.controller.logLevel | quote }}
- name: NRA_LOG_FORMAT
  value: {{ .Values.controller.logFormat }}
- name: NRA_CONFINEMENT_TEST
  value: {{ and .Values.policy.enabled (has "Deny" .Values.policy.validationActions) | quote }}
- name: NRA_PROTECTION
  value: {{ .Values.controller.protection }}
- name: NRA_NODE_CONDITION
  value: {{ .Values.nodeCondition.enabled | quote }}
# A Kustomize overlay may move the pod to another namespace.
- name: NRA_LEADER_ELECT_RESOURCE_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: NRA_LEADER_ELECT_RESOURCE_NAME
  value: {{ .Values.leaderElection.leaseName | quote }}
- name: NRA_LEADER_ELECT_LEASE_DURATION
  value: {{ .Values.leaderElection.leaseDuration | quote }}
- name: NRA_IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .Values.controller.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

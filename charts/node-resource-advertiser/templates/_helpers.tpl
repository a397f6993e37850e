{{- define "nra.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of namespaced objects. 52 characters leave room for what is appended. */}}
{{- define "nra.fullname" -}}
{{- $name := include "nra.name" . }}
{{- $whole := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- .Values.fullnameOverride | default $whole | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* The name of cluster-scoped objects: not the release's, so that two releases clash. */}}
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

{{- define "nra.image" -}}
{{- $image := printf "%s/%s" .Values.image.registry .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $image .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $image (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- /* What never changes over a release's life, as a selector must not. */}}
{{- define "nra.selectorLabels" -}}
app.kubernetes.io/name: {{ include "nra.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nra.labels" -}}
{{ include "nra.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Whether an object of a kind that the cluster may lack is rendered: (list root values apiVersion kind path) */}}
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

{{- /* What the Deployment's pods and the prune Job's have in common. */}}
{{- define "nra.podSpec" -}}
serviceAccountName: {{ include "nra.serviceAccountName" . }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext: {{ toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
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
{{- end }}

{{- /* The same of their containers. */}}
{{- define "nra.container" -}}
image: {{ include "nra.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env: {{- include "nra.env" . | nindent 2 }}
resources: {{ toYaml .Values.resources | nindent 2 }}
securityContext: {{ toYaml .Values.securityContext | nindent 2 }}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{- define "nra.env" -}}
- name: NRA_BIND_ADDRESS
  value: {{ printf "%s:8080" .Values.controller.bindAddress | quote }}
- name: NRA_MAX_CONCURRENT_PATCHES
  value: {{ .Values.controller.maxConcurrentPatches | quote }}
- name: NRA_REQUEST_TIMEOUT
  value: {{ .Values.controller.requestTimeout | quote }}
- name: NRA_MASS_WITHDRAWAL_DELAY
  value: {{ .Values.controller.massWithdrawalDelay | quote }}
- name: NRA_LOG_LEVEL
  value: {{ .Values.controller.logLevel | quote }}
- name: NRA_LOG_FORMAT
  value: {{ .Values.controller.logFormat }}
- name: NRA_LEADER_ELECT_RESOURCE_NAMESPACE
  value: {{ .Release.Namespace }}
- name: NRA_LEADER_ELECT_RESOURCE_NAME
  value: {{ .Values.leaderElection.leaseName }}
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

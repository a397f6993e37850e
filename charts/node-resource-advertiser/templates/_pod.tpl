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
- name: NRA_LISTEN
  value: {{ printf "%s:8080" .Values.controller.address | quote }}
- name: NRA_CONCURRENCY
  value: {{ .Values.controller.concurrency | quote }}
- name: NRA_REQUEST_TIMEOUT
  value: {{ .Values.controller.requestTimeout | quote }}
- name: NRA_LOG
  value: {{ .Values.controller.logLevel | quote }}
- name: NRA_LOG_FORMAT
  value: {{ .Values.controller.logFormat }}
- name: NRA_LEASE_NAMESPACE
  value: {{ .Release.Namespace }}
- name: NRA_LEASE_NAME
  value: {{ .Values.leaderElection.leaseName }}
- name: NRA_LEASE_DURATION
  value: {{ .Values.leaderElection.leaseDuration | quote }}
- name: NRA_IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .Values.controller.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

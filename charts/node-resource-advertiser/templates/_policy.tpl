{{- /* Whether a request is the controller's, in CEL. An overlay of Kustomize moves the account to another namespace, or
puts something before or behind its name, and cannot know this expression: so that it holds for each of these. Where
the account has another name, it is that one alone: no other program's account may be confined by chance. */}}
{{- define "nra.isAccount" -}}
{{- $name := include "nra.serviceAccountName" . }}
{{- if contains .Chart.Name $name -}}
request.userInfo.username.matches('^system:serviceaccount:[^:]+:[^:]*{{ .Chart.Name }}[^:]*$')
{{- else -}}
request.userInfo.username == 'system:serviceaccount:{{ include "nra.namespace" . }}:{{ $name }}'
{{- end }}
{{- end }}

{{- /* The entries of an annotation noderesource.dev/advertised in CEL, each as <name>=<quantity>. */}}
{{- define "nra.listed" -}}
{{ . }} == '' ? [] : {{ . }}.replace(' ', '').replace('\n', '').replace('\t', '').replace('\r', '').split('},"').filter(entry, entry.contains('"quantity":"')).map(entry, entry.replace('{"', '').split('"')[0] + '=' + entry.split('"quantity":"')[1].split('"')[0])
{{- end }}

{{- /* A CEL expression that is true for requests of the controller. A Kustomize overlay may move the account to another
namespace or add a prefix or suffix to its name, but cannot edit this expression, so it matches all of these. If the
account has another name, only that name matches: the policy must not confine another program's account by accident. The
chart's own name is that of no other program, unlike an alias that a parent chart gives it. */}}
{{- define "nra.isAccount" -}}
{{- $name := include "nra.serviceAccountName" . }}
{{- if contains "node-resource-advertiser" $name -}}
request.userInfo.username.matches('^system:serviceaccount:[^:]+:[^:]*node-resource-advertiser[^:]*$')
{{- else -}}
request.userInfo.username == 'system:serviceaccount:{{ include "nra.namespace" . }}:{{ $name }}'
{{- end }}
{{- end }}

{{- /* The entries of an annotation noderesource.dev/advertised in CEL, each as <name>=<quantity>. */}}
{{- define "nra.listed" -}}
{{ . }} == '' ? [] : {{ . }}.replace(' ', '').replace('\n', '').replace('\t', '').replace('\r', '').split('},"').filter(entry, entry.contains('"quantity":"')).map(entry, entry.replace('{"', '').split('"')[0] + '=' + entry.split('"quantity":"')[1].split('"')[0])
{{- end }}

{{/* Name of all objects. */}}
{{- define "leyden.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which pods are found. */}}
{{- define "leyden.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "leyden.labels" -}}
{{ include "leyden.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "leyden.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "leyden.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "leyden.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* Arguments of the server. */}}
{{- define "leyden.args" -}}
- serve
{{- range .Values.models }}
- {{ . | quote }}
{{- end }}
- --host=0.0.0.0
- --port=8080
- --log-format=json
- --lame-duck={{ .Values.lameDuckSeconds }}
- --drain-timeout={{ .Values.drainSeconds }}
{{- if not .Values.pull.enabled }}
- --offline
{{- end }}
{{- if .Values.apiKeys.secret }}
- --api-keys=/keys/keys.jsonl
{{- else }}
- --no-auth
- --allowed-hosts=*
{{- end }}
{{- if .Values.tls.secret }}
- --tls-cert=/tls/tls.crt
- --tls-key=/tls/tls.key
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* What no container of the pod may do. */}}
{{- define "leyden.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "leyden.env" -}}
- { name: LEYDEN_MODELS, value: /models }
- { name: LEYDEN_PACKS, value: /cache/packs }
- { name: HOME, value: /cache }
{{- end -}}

{{/* A probe of a path. */}}
{{- define "leyden.get" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- if .values.tls.secret }}
  scheme: HTTPS
  {{- end }}
{{- end -}}

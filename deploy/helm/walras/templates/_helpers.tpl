{{/* Labels of everything. */}}
{{- define "walras.labels" -}}
app.kubernetes.io/name: walras
app.kubernetes.io/part-of: walras
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The image. */}}
{{- define "walras.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Whether the agent writes control groups. */}}
{{- define "walras.direct" -}}
{{- if eq .Values.config.actuation "direct" }}true{{ end }}
{{- end }}

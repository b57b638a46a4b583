local params = import 'params.libsonnet';
[
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: params.name },
    spec: {
      ports: [{ port: params.servicePort, targetPort: params.containerPort }],
      selector: { app: params.name },
      type: params.type,
    },
  },
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: params.name },
    spec: {
      replicas: params.replicas,
      revisionHistoryLimit: 3,
      selector: { matchLabels: { app: params.name } },
      template: {
        metadata: { labels: { app: params.name } },
        spec: {
          terminationGracePeriodSeconds: 0,
          containers: [{
            name: params.name,
            image: params.image,
            command: ['/bin/sleep', '100000'],
            ports: [{ containerPort: params.containerPort }],
          }],
        },
      },
    },
  },
]

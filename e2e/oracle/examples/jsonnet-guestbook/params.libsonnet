{
  containerPort: 80,
  image: 'localhost/slipway-test:1',
  name: 'jsonnet-guestbook-ui',
  replicas: 1,
  servicePort: 80,
  type: 'ClusterIP',
}

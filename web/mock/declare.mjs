// Applications that are declared through the mock's runtime: looked at like the real one, then there a moment later.

const REPOSITORIES = ['ada/deploy', 'ada/shop'];

/** `applications`: the list that a new one joins. `first`: one that it is made like. */
export function createDeclare(applications, changed, speed) {
  return {
    lists(verb, query) {
      if (verb === 'git-repositories') return { names: REPOSITORIES };
      if (verb !== 'git-branches') return undefined;
      const branches = [
        { name: 'main', sha: 'a1' },
        { name: 'next', sha: 'b2' },
      ];
      return REPOSITORIES.includes(query.get('repository')) ? { branches } : undefined;
    },
    delete(namespace, name, { file, repository, dryRun }) {
      if (!file.endsWith(`${name}.yaml`))
        return { refuse: 404, message: `${repository} has no file \`${file}\`` };
      const answer = {
        outcome: 'valid',
        syncedBy: ['argocd/root'],
        warnings: ['what it deployed stays: it has no resources-finalizer'],
      };
      if (dryRun) return answer;
      setTimeout(() => {
        const gone = applications.findIndex((one) => one.name === name && one.namespace === namespace);
        if (gone < 0) return;
        const [{ runtime }] = applications.splice(gone, 1);
        changed('application', `${runtime}/${namespace}/${name}`);
      }, 1500 / speed);
      return {
        ...answer,
        outcome: 'committed',
        commit: 'd0e1f2a3b4',
        branch: 'main',
        author: 'Ada Lovelace',
      };
    },
    create(namespace, name, { application, dryRun, repository, branch, file }) {
      const { source = {}, destination = {}, project = 'default' } = application.spec ?? {};
      const details = [];
      const wrong = (path, message) => details.push({ path, message });
      if (source.repoURL?.includes('absent'))
        wrong('spec.source.repoURL', `repository \`${source.repoURL}\` is not there, or not to be seen`);
      if (source.path === 'nowhere') wrong('spec.source.path', 'path `nowhere` is not in the repository');
      if (application.spec?.oops) wrong('spec.oops', 'there is no such field');
      if (details.length > 0) {
        const message = details.map((one) => `${one.path}: ${one.message}`).join('\n');
        return { refuse: 422, message, details };
      }
      const answer = { outcome: 'valid', syncedBy: ['argocd/root'], warnings: [] };
      if (dryRun) return answer;
      setTimeout(() => {
        applications.push({
          ...structuredClone(applications[0]),
          name,
          namespace,
          runtime: 'local',
          project,
          repoUrl: source.repoURL,
          path: source.path ?? '',
          targetRevision: source.targetRevision ?? '',
          destination: `${destination.name ?? destination.server}, namespace ${destination.namespace}`,
        });
        changed('application', `local/${namespace}/${name}`);
      }, 1500 / speed);
      const made = { commit: '4f1d3b0c9a8e7d6c5b4a39281706f5e4d3c2b1a0', branch: branch || 'main' };
      const message = `\`${file}\` of ${repository} has no other declaration`;
      return {
        ...answer,
        ...made,
        outcome: 'committed',
        author: 'Ada Lovelace <ada@example.com>',
        warnings: [message],
      };
    },
  };
}

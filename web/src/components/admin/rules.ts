import type { RuleAttribute, RuleKind, RuleSpec } from '../../api/types';

/** What a form for rules about a kind shows: tags or attributes, and whether a rule may do without teams. */
export function ruleFields(kind: RuleKind | undefined, attributes: { name: string }[]) {
  return {
    tags: kind?.byTags ?? true,
    attributes: kind?.attributes ?? [],
    /** A rule about builds of a pipeline is about nobody's team. */
    teams: !attributes.some(({ name }) => name === 'PIPELINE'),
  };
}

/** Who may by a rule: teams, or builds of pipelines. */
export function whoText(rule: { teamNames: string[]; entityAttributes?: RuleAttribute[] }): string {
  const pipelines = (rule.entityAttributes ?? []).filter(({ name }) => name === 'PIPELINE');
  return pipelines.length > 0
    ? `builds of ${pipelines.map(({ value }) => value).join(', ')}`
    : rule.teamNames.join(', ');
}

/** When a rule applies, in words: "with any of the tags prod, staging", "where RUNTIME local". */
export function conditionText(rule: RuleSpec): string {
  const parts: string[] = [];
  const tags = rule.tags ?? [];
  const whose = rule.relatedResource ? ` of the ${rule.relatedResource}` : '';
  if (tags.includes('*')) parts.push('whatever its tags');
  else if (tags.length === 1 && tags[0] === 'untagged') parts.push(`without tags${whose}`);
  else if (tags.length === 1) parts.push(`with the tag ${tags[0]}${whose}`);
  else if (tags.length > 1)
    parts.push(`with ${rule.tagMatch ?? 'any'} of the tags ${tags.join(', ')}${whose}`);
  const attributes = rule.entityAttributes ?? [];
  if (attributes.length > 0) parts.push(`where ${attributes.map(attributeText).join(', ')}`);
  return parts.join(', ') || 'all';
}

const attributeText = ({ name, key, value }: RuleAttribute): string =>
  key ? `${name} ${key}=${value}` : `${name} ${value}`;

/** `pipeline/demo/build` → the kind and the name; a name may hold slashes. */
export function splitEntity(entity: string): { kind: string; name: string } {
  const at = entity.indexOf('/');
  return at < 0 ? { kind: entity, name: '' } : { kind: entity.slice(0, at), name: entity.slice(at + 1) };
}

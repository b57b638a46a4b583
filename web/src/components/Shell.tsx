import { ActionIcon, Drawer, Menu as DropMenu, UnstyledButton } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, Outlet, useRouter, useRouterState } from '@tanstack/react-router';
import { Suspense, useEffect } from 'react';
import { signOut, switchAccount } from '../api/mutations';
import { userQuery } from '../api/queries';
import { useConfirmIdentity } from '../hooks/useConfirmIdentity';
import { useLiveConnection } from '../hooks/useLive';
import { Box, Building, ChevronUp, Key, Menu, Person } from '../ui/icons';
import { Loading, sentence, toFailure } from '../ui/States';
import { ColorSchemeSwitch } from './ColorSchemeSwitch';
import { Mark } from './Mark';
import { PaletteButton, PaletteKeys } from './palette/PaletteButton';
import { groupsFor } from './palette/places';
import styles from './Shell.module.css';

/** The frame of every signed-in page: where one can go, who one is, and whether the page is live. */
export function Shell() {
  const live = useLiveConnection();
  const confirmation = useConfirmIdentity();
  const [opened, menu] = useDisclosure();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const { close } = menu;
  useEffect(close, [path, close]);
  return (
    <div className={styles.shell}>
      <a className="skip-link" href="#main">
        Skip to content
      </a>
      <aside className={styles.side} aria-label="Slipway">
        <Side />
      </aside>
      <header className={styles.bar}>
        <ActionIcon variant="transparent" color="white" aria-label="Open the menu" onClick={menu.open}>
          <Menu />
        </ActionIcon>
        <Brand />
      </header>
      <Drawer
        opened={opened}
        onClose={menu.close}
        size={230}
        withCloseButton={false}
        attributes={{ content: { 'aria-label': 'Menu' } }}
        classNames={{ content: styles.drawer ?? '', body: styles.drawerBody ?? '' }}
      >
        <Side />
      </Drawer>
      <main id="main" className={styles.main} tabIndex={-1}>
        {live === 'reconnecting' && (
          <div className={styles.away} role="status">
            <span className={styles.pulse} aria-hidden="true" />
            The connection to the server is lost. What you see may be out of date; reconnecting…
          </div>
        )}
        <Suspense fallback={<Loading rows={6} />}>
          <Outlet />
        </Suspense>
      </main>
      {confirmation}
      <PaletteKeys />
    </div>
  );
}

function Brand() {
  return (
    <Link to="/" className={styles.brand}>
      <Mark />
      <span>Slipway</span>
    </Link>
  );
}

function Side() {
  const { data: user } = useQuery(userQuery);
  return (
    <>
      <Brand />
      <PaletteButton />
      <nav className={styles.nav} aria-label="Pages">
        {groupsFor(user).map(({ label, places }) => (
          <div
            key={label ?? ''}
            className={styles.group}
            {...(label ? { role: 'group', 'aria-label': label } : {})}
          >
            {label && (
              <div className={styles.groupLabel} aria-hidden="true">
                {label}
              </div>
            )}
            {places.map(({ to, label: name, icon: Icon, exact }) => (
              <Link
                key={to}
                to={to}
                className={styles.place}
                // The page stays the same whatever it filters by.
                activeOptions={{ exact: exact ?? false, includeSearch: false }}
              >
                <Icon />
                {name}
              </Link>
            ))}
          </div>
        ))}
      </nav>
      <div className={styles.foot}>
        <ColorSchemeSwitch />
        <Account />
      </div>
    </>
  );
}

async function enter(account: string): Promise<void> {
  try {
    await switchAccount(account);
    // Everything on screen and the change stream are of the account that is left: start afresh.
    window.location.assign('/');
  } catch (error) {
    notifications.show({
      color: 'red',
      title: 'Could not switch accounts',
      message: sentence(toFailure(error).message),
    });
  }
}

function Account() {
  const { data: user } = useQuery(userQuery);
  const queryClient = useQueryClient();
  const router = useRouter();
  const leave = async () => {
    await signOut().catch(() => undefined);
    queryClient.clear();
    await router.navigate({ to: '/login' });
  };
  if (!user) return null;
  const others = user.account.filter(({ active, name }) => !active && name !== user.activeAccountName);
  return (
    <DropMenu position="top-start" width={220} withinPortal={false} withInitialFocusPlaceholder={false}>
      <DropMenu.Target>
        <UnstyledButton className={styles.account} aria-label={`Account of ${user.userName}`}>
          <Person />
          <span className="ellipsis">{user.userName}</span>
          <ChevronUp />
        </UnstyledButton>
      </DropMenu.Target>
      <DropMenu.Dropdown>
        <DropMenu.Label>
          {user.email}
          <br />
          account {user.activeAccountName}
        </DropMenu.Label>
        <DropMenu.Item leftSection={<Person />} component={Link} to="/profile">
          Your profile
        </DropMenu.Item>
        <DropMenu.Item leftSection={<Key />} component={Link} to="/profile/keys">
          Your API keys
        </DropMenu.Item>
        {others.length > 0 && (
          <>
            <DropMenu.Divider />
            <DropMenu.Label>Switch to</DropMenu.Label>
            {others.map((account) => (
              <DropMenu.Item
                key={account._id}
                leftSection={<Building />}
                onClick={() => void enter(account._id)}
              >
                {account.name}
              </DropMenu.Item>
            ))}
          </>
        )}
        <DropMenu.Divider />
        <DropMenu.Item
          leftSection={<Box />}
          component="a"
          href="/api/openapi.json"
          target="_blank"
          rel="noreferrer"
        >
          API reference
        </DropMenu.Item>
        <DropMenu.Item onClick={() => void leave()}>Sign out</DropMenu.Item>
      </DropMenu.Dropdown>
    </DropMenu>
  );
}

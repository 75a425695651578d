"""A management command that runs once at a time: `manage.py rebuild`. In a project it is the file
`app/management/commands/rebuild.py`.

A command that waits longer than an hour says who holds the lock.
"""

import fairlock
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Rebuilds the reports, one process at a time"

    def add_arguments(self, parser):
        parser.add_argument("--timeout", type=float, default=3600)

    def handle(self, *args, timeout, **options):
        with fairlock.connect(settings.FAIRLOCK_URL) as client:
            lock = client.lock("reports:rebuild")
            try:
                with lock.acquire(timeout=timeout, label="manage.py rebuild") as held:
                    self.stdout.write(f"rebuilt with token {held.token}")
            except fairlock.Timeout as error:
                raise CommandError(f"{error}; held by {lock.inspect().wait().holders}")

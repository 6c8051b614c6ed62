"""What each change was about, and values that belong to the whole installation."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("revision", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_changes"),
    )
    op.create_table(
        "installation",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_installation"),
    )

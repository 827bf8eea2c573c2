(* gip.thm1: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Theorem 1, Definition 4 (eq. 4, 8 to 10).
   P(I) = exp(-theta h(I, I_0)) / psi over the index sets with K = kd ones is eps-differentially private if and only if theta <= eps / s_1, s_1 the sensitivity of the index set.
   Doubt: theta >= 0 and s_1 > 0 are added; the theorem does not state them, and at negative theta its condition does not hold. *)
From kernel Require Import definitions lemmas.

Definition weight (theta : R) (I0 I : list bool) : R := exp (- theta * INR (distance I I0)).
Definition psi (d K : nat) (theta : R) (I0 : list bool) : R := over_masks d K (weight theta I0).
Definition mallows (d K : nat) (theta : R) (I0 I : list bool) : R := weight theta I0 I / psi d K theta I0.
(* neighbours' index sets: any relation; s is the largest distance in it, and reached *)
Definition sensitivity (d K : nat) (near : list bool -> list bool -> Prop) (s : nat) : Prop :=
  (forall I J, near I J -> In I (masks d K) /\ In J (masks d K) /\ (distance I J <= s)%nat) /\
  exists I J, near I J /\ distance I J = s.
Definition private (d K : nat) (theta : R) (near : list bool -> list bool -> Prop) (eps : R) : Prop :=
  forall I0 I1 I, near I0 I1 -> In I (masks d K) ->
  mallows d K theta I0 I <= exp eps * mallows d K theta I1 I /\ mallows d K theta I1 I <= exp eps * mallows d K theta I0 I.
Definition printed : Prop := forall d K theta near s eps, (K <= d)%nat -> 0 <= theta -> (0 < s)%nat -> sensitivity d K near s ->
  (private d K theta near eps <-> theta <= eps / INR s).

Lemma weight_pos theta I0 I : 0 < weight theta I0 I. Proof. apply exp_pos. Qed.
Lemma psi_same d K theta I0 I1 : In I0 (masks d K) -> In I1 (masks d K) -> psi d K theta I0 = psi d K theta I1.
Proof. apply (over_masks_reference d K I0 I1 (fun n => exp (- theta * INR n))). Qed.
Lemma psi_pos d K theta I0 : (K <= d)%nat -> 0 < psi d K theta I0.
Proof. intro. apply over_masks_pos; [assumption | intro; apply weight_pos]. Qed.
Lemma one_way d K theta eps s I0 I1 I : (K <= d)%nat -> 0 <= theta -> (0 < s)%nat -> theta <= eps / INR s ->
  In I0 (masks d K) -> In I1 (masks d K) -> In I (masks d K) -> (distance I0 I1 <= s)%nat ->
  mallows d K theta I0 I <= exp eps * mallows d K theta I1 I.
Proof.
  intros Kd t0 s0 te i0 i1 i ds. unfold mallows. rewrite (psi_same d K theta I0 I1 i0 i1). pose proof (psi_pos d K theta I1 Kd).
  unfold Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat; assumption|].
  unfold weight. rewrite <- exp_plus. assert (c : 0 < INR s) by (apply lt_0_INR; exact s0).
  assert (te' : theta * INR s <= eps).
  { apply (Rmult_le_compat_r (INR s)) in te; [|lra]. replace (eps / INR s * INR s) with eps in te by (field; lra). exact te. }
  destruct (in_masks _ _ _ i0) as [l0 _], (in_masks _ _ _ i1) as [l1 _], (in_masks _ _ _ i) as [l _].
  pose proof (distance_triangle I I0 I1 ltac:(congruence) ltac:(congruence)) as tr.
  apply le_INR in tr. rewrite plus_INR in tr. apply le_INR in ds.
  assert (- theta * INR (distance I I0) <= eps + - theta * INR (distance I I1)) by nra.
  destruct (Rle_lt_or_eq_dec _ _ H0) as [lt|e]; [left; apply exp_increasing, lt | right; f_equal; exact e].
Qed.
Theorem printed_holds : printed.
Proof.
  intros d K theta near s eps Kd t0 s0 [bound (A & B & nAB & dAB)]. split.
  - intro p. destruct (bound A B nAB) as (iA & iB & _). destruct (p A B A nAB iA) as [h _]. unfold mallows in h.
    rewrite (psi_same d K theta A B iA iB) in h. pose proof (psi_pos d K theta B Kd). unfold Rdiv in h. rewrite <- Rmult_assoc in h.
    apply Rmult_le_reg_r in h; [|apply Rinv_0_lt_compat; assumption]. unfold weight in h. rewrite distance_self, dAB, <- exp_plus in h.
    assert (- theta * INR 0 <= eps + - theta * INR s).
    { destruct (Rle_dec (- theta * INR 0) (eps + - theta * INR s)) as [y|n]; [exact y|]. assert (lt : eps + - theta * INR s < - theta * INR 0) by lra.
      apply exp_increasing in lt. lra. }
    assert (c : 0 < INR s) by (apply lt_0_INR; exact s0). simpl INR in H0. apply (Rmult_le_reg_r (INR s)); [exact c|].
    replace (eps / INR s * INR s) with eps by (field; lra). lra.
  - intros te I0 I1 I n i. destruct (bound I0 I1 n) as (i0 & i1 & ds). split; [eapply one_way; eassumption|].
    apply (one_way d K theta eps s I1 I0 I); try assumption. rewrite distance_comm. exact ds.
Qed.
(* the hypotheses can be met: d = 2, K = 1, the two index sets are neighbours *)
Lemma satisfiable : sensitivity 2 1 (fun I J => In I (masks 2 1) /\ In J (masks 2 1)) 2.
Proof.
  split.
  - intros I J [i j]. split; [exact i|]. split; [exact j|]. simpl in i, j. destruct i as [<-|[<-|[]]], j as [<-|[<-|[]]]; simpl; lia.
  - exists [true; false], [false; true]. simpl. tauto.
Qed.
